//! The door to the machine: which backend, which devices.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::pool::numa::{Nodes, of_host};
use crate::registry::Registry;
use pinfold_hal::{BackendInfo, DeviceId, Driver, DriverError};
use pinfold_hal_cuda::Cuda;
use pinfold_hal_sim::{Sim, SimOptions};
use pinfold_model::Profile;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// A backend with its devices. Cheap to clone. Makes no context and pins nothing.
#[derive(Clone)]
pub struct Platform {
    inner: Arc<PlatformInner>,
}

pub(crate) struct PlatformInner {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) registry: Registry,
    /// The NUMA nodes of the host, once asked for.
    nodes: OnceLock<Arc<dyn Nodes>>,
}

impl PlatformInner {
    /// The NUMA nodes of the host.
    ///
    /// # Errors
    /// Where the driver cannot tell which devices there are.
    pub(crate) fn nodes(&self) -> Result<&dyn Nodes, DriverError> {
        if let Some(nodes) = self.nodes.get() {
            return Ok(&**nodes);
        }
        let read = of_host(&*self.driver)?;
        Ok(&**self.nodes.get_or_init(|| read))
    }
}

impl Platform {
    /// The real devices of this machine.
    ///
    /// # Errors
    /// [`Error::NoCuda`] where no driver or no device is there; the text says which.
    pub fn cuda() -> Result<Self> {
        let cuda = Cuda::load().map_err(|e| Error::NoCuda {
            reason: e.to_string(),
        })?;
        Ok(Self::with_driver(Arc::new(cuda)))
    }

    /// Simulated devices, without effect policy or faults beyond the default (eager, none).
    pub fn simulated(profile: Profile) -> Self {
        Self::with_driver(Arc::new(Sim::new(SimOptions::new(profile))))
    }

    /// Any backend: a simulator with options of its own, or a decorated one.
    pub fn with_driver(driver: Arc<dyn Driver>) -> Self {
        Self::of(driver, OnceLock::new())
    }

    /// A backend on a host with these NUMA nodes: to see what becomes of a program on a machine
    /// that is not at hand.
    pub fn with_nodes(driver: Arc<dyn Driver>, nodes: Arc<dyn Nodes>) -> Self {
        Self::of(driver, OnceLock::from(nodes))
    }

    fn of(driver: Arc<dyn Driver>, nodes: OnceLock<Arc<dyn Nodes>>) -> Self {
        Platform {
            inner: Arc::new(PlatformInner {
                driver,
                registry: Registry::default(),
                nodes,
            }),
        }
    }

    pub(crate) fn from_inner(inner: Arc<PlatformInner>) -> Self {
        Platform { inner }
    }

    /// What stands behind the devices.
    pub fn info(&self) -> BackendInfo {
        self.inner.driver.info()
    }

    /// The backend itself, for tools that measure or check below this crate.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.inner.driver
    }

    /// Number of devices.
    ///
    /// # Errors
    /// Where the driver cannot tell.
    pub fn device_count(&self) -> Result<u32> {
        self.inner
            .driver
            .device_count()
            .map_err(Error::driver("counting devices"))
    }

    /// One device by number.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`] for a number out of range.
    pub fn device(&self, index: u32) -> Result<Device> {
        let count = self.device_count()?;
        if index >= count {
            return Err(Error::UnknownDevice { index, count });
        }
        Device::new(self.inner.clone(), DeviceId(index))
    }

    /// All devices in order.
    ///
    /// # Errors
    /// Where the driver cannot tell.
    pub fn devices(&self) -> Result<Vec<Device>> {
        (0..self.device_count()?)
            .map(|index| self.device(index))
            .collect()
    }
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Platform")
            .field("backend", &self.info().name)
            .finish()
    }
}

/// Which device a user asked for: `auto`, `cuda:N`, `sim`, `sim:PROFILE`, `sim:FILE`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The first real device, or the simulated default where there is none.
    #[default]
    Auto,
    /// A real device by number.
    Cuda(u32),
    /// Device 0 of a simulated machine, by the name of a shipped profile or by a profile's file.
    Simulated(String),
}

/// The profile that `sim` alone stands for.
pub const DEFAULT_PROFILE: &str = "h200";

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::BadDeviceChoice {
            text: text.to_owned(),
            profiles: Profile::shipped_names().join(", "),
        };
        match text.split_once(':') {
            None if text == "auto" => Ok(DeviceChoice::Auto),
            None if text == "cuda" => Ok(DeviceChoice::Cuda(0)),
            None if text == "sim" => Ok(DeviceChoice::Simulated(DEFAULT_PROFILE.to_owned())),
            Some(("cuda", index)) => index.parse().map(DeviceChoice::Cuda).map_err(|_| bad()),
            Some(("sim", profile))
                if Profile::shipped_names().contains(&profile) || Path::new(profile).is_file() =>
            {
                Ok(DeviceChoice::Simulated(profile.to_owned()))
            }
            _ => Err(bad()),
        }
    }
}

/// A platform and a device on it, with what the user should know about the choice.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The backend.
    pub platform: Platform,
    /// The device.
    pub device: Device,
    /// Why the device is a simulated one though none was asked for.
    pub notice: Option<String>,
}

impl DeviceChoice {
    /// Finds the device. Creates no context.
    ///
    /// # Errors
    /// Where a real device was asked for by number and is not there, or a file is no profile.
    pub fn open(&self) -> Result<Opened> {
        match self {
            DeviceChoice::Cuda(index) => {
                let platform = Platform::cuda()?;
                let device = platform.device(*index)?;
                Ok(Opened {
                    platform,
                    device,
                    notice: None,
                })
            }
            DeviceChoice::Simulated(name) => Self::open_simulated(name, None),
            DeviceChoice::Auto => match Platform::cuda() {
                Ok(platform) => {
                    let device = platform.device(0)?;
                    Ok(Opened {
                        platform,
                        device,
                        notice: None,
                    })
                }
                Err(Error::NoCuda { reason }) => {
                    let notice = format!(
                        "{reason}. Running on the simulated device `{DEFAULT_PROFILE}`: results \
                         are checked for real, times are simulated."
                    );
                    Self::open_simulated(DEFAULT_PROFILE, Some(notice))
                }
                Err(other) => Err(other),
            },
        }
    }

    fn open_simulated(name: &str, notice: Option<String>) -> Result<Opened> {
        let profile = match Profile::shipped(name) {
            Ok(profile) => profile,
            Err(_) => crate::profiles::load(Path::new(name))?,
        };
        let platform = Platform::simulated(profile);
        let device = platform.device(0)?;
        Ok(Opened {
            platform,
            device,
            notice,
        })
    }
}
