//! Lets chosen calls fail.

mod plan;

pub use plan::{FaultPlan, ParseFaultPlanError};

use crate::count::PerCall;
use crate::{Call, Hook};
use pinfold_hal::{DeviceId, DriverError, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A [`Hook`] that refuses the calls that a [`FaultPlan`] names, and counts all that ask.
///
/// The same calls in the same order get the same faults. With several threads, `#N` and `any#N`
/// count calls in the order in which they come.
pub struct Faulty {
    plan: FaultPlan,
    asked: PerCall,
    asked_any: AtomicU64,
    injected: PerCall,
    lose: Option<Box<dyn Fn(DeviceId) + Send + Sync>>,
}

impl Faulty {
    /// Refuses what the plan names.
    pub fn new(plan: FaultPlan) -> Self {
        Faulty {
            plan,
            asked: PerCall::new(),
            asked_any: AtomicU64::new(0),
            injected: PerCall::new(),
            lose: None,
        }
    }

    /// What loses a device, to be called before a sticky code is answered on it. After such a code
    /// callers may reuse memory that work in flight was using, so a plan with one needs this
    /// wherever work can be in flight; without it the code is only an answer.
    #[must_use]
    pub fn losing(mut self, lose: impl Fn(DeviceId) + Send + Sync + 'static) -> Self {
        self.lose = Some(Box::new(lose));
        self
    }

    /// How many calls asked that `any` rules count: all but releases, refused ones included.
    pub fn asked_any(&self) -> u64 {
        self.asked_any.load(Ordering::Relaxed)
    }

    /// How often each call asked, releases and refused ones included.
    pub fn asked(&self) -> BTreeMap<Call, u64> {
        self.asked.map()
    }

    /// How often each call was refused, without those that never were.
    pub fn injected(&self) -> BTreeMap<Call, u64> {
        self.injected.map()
    }
}

impl Hook for Faulty {
    fn before(&self, call: Call, device: Option<DeviceId>) -> Result<()> {
        let of_name = self.asked.add(call);
        let of_any =
            (!call.is_release()).then(|| self.asked_any.fetch_add(1, Ordering::Relaxed) + 1);
        let mut rules = self.plan.rules.iter();
        let Some(rule) = rules.find(|rule| rule.refuses(call, of_name, of_any)) else {
            return Ok(());
        };
        self.injected.add(call);
        if let (true, Some(lose), Some(device)) = (rule.code.is_sticky(), &self.lose, device) {
            lose(device);
        }
        let detail = format!("injected by the fault rule `{rule}`");
        Err(DriverError::with_detail(
            rule.code,
            call.entry_point(),
            detail,
        ))
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty")
            .field("plan", &format_args!("{}", self.plan))
            .finish_non_exhaustive()
    }
}
