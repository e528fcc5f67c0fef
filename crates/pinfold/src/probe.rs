//! What this machine is: backends, devices and host, with what each fact means for host memory.
//!
//! Plain data for reports. Gathering it makes no context and pins nothing.

mod meaning;
mod topics;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::platform::{DEFAULT_PROFILE, DeviceChoice, Platform};
use crate::pool::PinCeiling;
use pinfold_hal::DeviceInfo;
use pinfold_machine::{Finding, Machine, PinHeadroom};
use pinfold_model::Profile;
use serde::Serialize;

pub use meaning::{DeviceFinding, meanings};
/// The host's side of a report.
pub use pinfold_machine as machine;

/// What this machine is.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeReport {
    /// What stands behind devices here.
    pub backends: Backends,
    /// The devices that the choice stands for; empty where there is none.
    pub devices: Vec<ProbedDevice>,
    /// Why the devices are not the ones that were asked for, or not real.
    pub notice: Option<String>,
    /// The host.
    pub machine: Machine,
    /// What the host's facts mean: warnings first.
    pub findings: Vec<Finding>,
    /// How much more memory may be page-locked on the host.
    pub pin_headroom: PinHeadroom,
    /// How much could be page-locked when it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin_ceiling: Option<PinCeiling>,
}

/// What stands behind devices on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Backends {
    /// The real driver.
    pub cuda: CudaBackend,
    /// The machines that can be simulated, by name: `sim:NAME`.
    pub simulated: &'static [&'static str],
}

/// The real driver, as far as it can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CudaBackend {
    /// True where it works and has a device.
    pub usable: bool,
    /// Why it cannot be used, and what to do.
    pub reason: Option<String>,
    /// The CUDA version of the driver, such as `13.0`.
    pub cuda_version: Option<String>,
    /// The driver's release, such as `580.159.04`.
    pub driver_release: Option<String>,
    /// Optional entry points that the driver lacks, by name.
    pub missing_symbols: Vec<String>,
}

/// One device with what it means for host memory.
#[derive(Clone, Debug, Serialize)]
pub struct ProbedDevice {
    /// How to choose it: `cuda:0`, `sim:h200`. Further devices of a simulated machine are described
    /// in words: only programs can choose those.
    pub choice: String,
    /// What it is.
    pub info: DeviceInfo,
    /// What that means: warnings first.
    pub meanings: Vec<DeviceFinding>,
}

impl ProbeReport {
    /// Gathers the report. Never fails: what cannot be had is named in the report. Makes no
    /// context and pins nothing; takes a moment where a driver has to be loaded.
    ///
    /// `Auto` stands for every real device, or for the simulated default where there is none.
    pub fn gather(choice: &DeviceChoice) -> ProbeReport {
        let machine = Machine::read();
        let real = Platform::cuda();
        let cuda = CudaBackend::of(&real);
        let (found, notice) = match choice {
            DeviceChoice::Auto => match &real {
                Err(Error::NoCuda { .. }) => simulated_default(),
                Err(other) => (Vec::new(), Some(other.to_string())),
                Ok(platform) => listed(platform.devices(), |index| format!("cuda:{index}")),
            },
            DeviceChoice::Cuda(index) => {
                let device = real.and_then(|platform| platform.device(*index));
                listed(device.map(|d| vec![d]), |index| format!("cuda:{index}"))
            }
            DeviceChoice::Simulated(name) => simulated(name),
        };
        ProbeReport {
            backends: Backends {
                cuda,
                simulated: Profile::shipped_names(),
            },
            devices: found
                .into_iter()
                .map(|(c, d)| ProbedDevice::of(c, &d, &machine))
                .collect(),
            notice,
            findings: machine.findings(),
            pin_headroom: machine.pin_headroom(),
            pin_ceiling: None,
            machine,
        }
    }
}

/// Devices with how to choose each, and a notice.
type Found = (Vec<(String, Device)>, Option<String>);

fn listed(devices: Result<Vec<Device>>, choice: impl Fn(u32) -> String) -> Found {
    match devices {
        Ok(devices) => (
            devices
                .into_iter()
                .map(|d| (choice(d.index()), d))
                .collect(),
            None,
        ),
        Err(error) => (Vec::new(), Some(error.to_string())),
    }
}

fn simulated(name: &str) -> Found {
    let opened = DeviceChoice::Simulated(name.to_owned()).open();
    listed(
        opened.and_then(|opened| opened.platform.devices()),
        |index| match index {
            0 => format!("sim:{name}"),
            further => format!("device {further} of sim:{name}"),
        },
    )
}

fn simulated_default() -> Found {
    let (devices, problem) = simulated(DEFAULT_PROFILE);
    let notice = format!(
        "No real device can be used here (see CUDA under Backends). Shown is the simulated device \
         `{DEFAULT_PROFILE}`, which jobs run on instead: their results are checked for real, their \
         times are simulated."
    );
    (devices, problem.or(Some(notice)))
}

impl CudaBackend {
    fn of(platform: &Result<Platform>) -> Self {
        match platform {
            Ok(platform) => {
                let info = platform.info();
                let (major, minor) = (info.driver_version / 1000, info.driver_version % 1000 / 10);
                CudaBackend {
                    usable: true,
                    reason: None,
                    cuda_version: Some(format!("{major}.{minor}")),
                    driver_release: info.driver_release,
                    missing_symbols: info.missing_symbols,
                }
            }
            Err(Error::NoCuda { reason }) => CudaBackend {
                reason: Some(reason.clone()),
                ..CudaBackend::default()
            },
            Err(other) => CudaBackend {
                reason: Some(other.to_string()),
                ..CudaBackend::default()
            },
        }
    }
}

impl ProbedDevice {
    fn of(choice: String, device: &Device, machine: &Machine) -> Self {
        let info = device.info().clone();
        // How many nodes a simulated device's host has is no matter of this machine.
        let host_nodes = if info.simulated {
            0
        } else {
            machine.numa.len()
        };
        let meanings = meanings(&info, host_nodes);
        ProbedDevice {
            choice,
            info,
            meanings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_chosen_the_report_says_what_is_there_or_why_not() {
        for choice in [DeviceChoice::Auto, DeviceChoice::Cuda(4_000_000_000)] {
            let report = ProbeReport::gather(&choice);
            assert!(
                !report.devices.is_empty() || report.notice.is_some(),
                "{choice:?}"
            );
            assert_eq!(
                report.backends.cuda.usable,
                report.backends.cuda.reason.is_none()
            );
        }
    }
}
