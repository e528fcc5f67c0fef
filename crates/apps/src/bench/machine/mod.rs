//! Any machine, measured: what its memory kinds, its link and its driver's calls cost, and from
//! that its profile.
//!
//! [`plan`] how much · [`rig`] how · one module for each group: [`pins`], [`copies`], [`stage`],
//! [`in_place`], [`rows`], [`small`], [`host`] · [`fit`] from figures to a profile · [`tables`] and
//! [`charts`] from figures to a report. Within a group all ways take turns.

mod charts;
pub(in crate::bench) mod copies;
mod fit;
mod host;
mod in_place;
mod pins;
pub(in crate::bench) mod plan;
pub(in crate::bench) mod rig;
pub(in crate::bench) mod rows;
mod small;
mod stage;
mod tables;

use super::table::TablesReport;
use crate::error::Result;
use crate::progress::Progress;
use crate::report::{DeviceLabel, Fact};
use pinfold::Device;
use pinfold_model::Profile;
use plan::Plan;
use rig::Rig;

/// All figures of a machine.
struct Figures {
    pins: pins::Measured,
    copies: copies::Measured,
    staged: Vec<stage::Staged>,
    in_place: in_place::Measured,
    rows: rows::Measured,
    small: small::Measured,
    host: Vec<host::HostRate>,
}

impl Figures {
    fn measure(rig: &mut Rig, progress: &mut dyn Progress) -> Result<Self> {
        Ok(Figures {
            small: small::measure(rig, progress)?,
            pins: pins::measure(rig, progress)?,
            copies: copies::measure(rig, progress)?,
            staged: stage::measure(rig, progress)?,
            in_place: in_place::measure(rig, progress)?,
            rows: rows::measure(rig, progress)?,
            host: host::measure(rig, progress)?,
        })
    }
}

/// A machine's report, and its profile.
#[derive(Clone, Debug)]
pub struct MachineReport {
    /// What was measured.
    pub report: TablesReport,
    /// What it makes of the machine. What was not measured is assumed, from the nearest shipped
    /// profile.
    pub profile: Profile,
}

/// Measures a machine; `quick` keeps it within a minute.
///
/// # Errors
/// Where memory cannot be had, the device fails, or wrong bytes arrive.
pub fn run(device: &Device, quick: bool, progress: &mut dyn Progress) -> Result<MachineReport> {
    let plan = Plan::new(device, quick);
    let mut rig = Rig::new(device, plan)?;
    let figures = Figures::measure(&mut rig, progress)?;
    let profile = fit::profile(device, &figures);
    profile.check()?;
    let mut report = TablesReport {
        bench: "machine".to_owned(),
        device: DeviceLabel::of(device),
        machine: tables::machine(device, &figures, quick),
        tables: tables::all(&figures),
        charts: charts::all(&figures, &profile),
        findings: tables::findings(&figures, &profile),
    };
    let (measured, all) = fit::counts(&profile);
    let text = format!("{measured} of {all} values measured, the rest assumed");
    report.findings.push(Fact::new("profile", text));
    Ok(MachineReport { report, profile })
}
