//! How much memory can really be page-locked: found by page-locking it step by step, and given back
//! at once. What limits say is not always what a driver, a hypervisor or a container grants.

use super::{Pool, PoolOptions};
use crate::device::Device;
use crate::error::{Error, Result};
use serde::Serialize;

/// The first steps, and the last ones.
const STEP_BYTES_MAX: u64 = 1 << 30;
const STEP_BYTES_MIN: u64 = 16 << 20;

/// How much could be page-locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PinCeiling {
    /// Bytes that were page-locked at once, to the last 16 MiB.
    pub bytes: u64,
    /// What refused more; none where the limit that was given was reached.
    pub stopped_by: Option<String>,
}

impl Pool {
    /// Page-locks memory for a device step by step until something refuses, or so many bytes are
    /// reached, or all that the machine has left, and gives all of it back. Takes some seconds for
    /// a hundred gibibytes.
    ///
    /// # Errors
    /// Where the device cannot be opened, or is lost.
    pub fn pin_ceiling(device: &Device, at_most_bytes: u64) -> Result<PinCeiling> {
        device.ensure_open()?;
        let options = PoolOptions::default();
        let none = || Error::UnknownDevice {
            index: device.index(),
            count: 0,
        };
        let pool = Pool::new(std::slice::from_ref(device), &options).ok_or_else(none)?;
        // Growing by more than the step must not exceed the limit either.
        let headroom = pinfold_machine::Machine::read().pin_headroom().bytes;
        let at_most_bytes = at_most_bytes.min(headroom);
        pool.set_budget(Some(at_most_bytes));
        let (mut held, mut step_bytes, mut stopped_by) = (Vec::new(), STEP_BYTES_MAX, None);
        while step_bytes >= STEP_BYTES_MIN {
            let left_bytes = at_most_bytes.saturating_sub(pool.stats().pinned_bytes);
            if left_bytes < STEP_BYTES_MIN {
                stopped_by = None;
                break;
            }
            match pool.take(step_bytes.min(left_bytes)) {
                Ok(block) => held.push(block),
                Err(error) if error.device_is_lost() => return Err(error),
                Err(error) => {
                    stopped_by = Some(match error {
                        Error::PoolFull { problem } => problem,
                        other => other.to_string(),
                    });
                    step_bytes /= 4;
                }
            }
        }
        let bytes = pool.stats().pinned_bytes;
        drop(held);
        pool.trim(0);
        Ok(PinCeiling { bytes, stopped_by })
    }
}
