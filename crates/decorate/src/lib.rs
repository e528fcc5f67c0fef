//! Drivers around drivers.
//!
//! What a driver does is a backend's job; what is done *around* its calls is a decorator's. So no
//! backend has a switch for it, every backend can have it, and decorators stack:
//!
//! * [`Hooked`] forwards every operation of an inner [`Driver`](pinfold_hal::Driver), and lets a
//!   [`Hook`] know before and after each [`Call`], which is an operation that can fail.
//! * [`Counted`] is a hook that counts: how many driver calls does something take?
//! * [`Faulty`] is a hook that refuses the calls that a [`FaultPlan`] names: what does a program
//!   do when its 17th call fails?
//!
//! # A refused call
//!
//! has not happened. Nothing was allocated, enqueued, waited for or released, and what was handed
//! in (a callback) is dropped unused; each [`Call`] says what that means for it. The caller sees
//! the error and keeps what it had, as the driver contract demands of every failed call. Calls
//! that release something are refused only where a plan names them.
//!
//! ```
//! use pinfold_decorate::{Call, Faulty, Hooked};
//! use pinfold_hal::{BackendOps, DeviceId, MemoryOps};
//! use pinfold_hal_sim::{Sim, SimOptions};
//! use pinfold_model::Profile;
//! use std::sync::Arc;
//!
//! let sim = Arc::new(Sim::new(SimOptions::new(Profile::h200())));
//! let faulty = Faulty::new("device-alloc#2:OutOfMemory".parse()?);
//! let driver = Hooked::new(sim, faulty);
//! driver.open(DeviceId(0))?;
//! assert!(driver.device_alloc(DeviceId(0), 256).is_ok());
//! assert!(driver.device_alloc(DeviceId(0), 256).is_err());
//! assert_eq!(driver.hook().injected()[&Call::DeviceAlloc], 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod call;
mod count;
mod fault;
// The unsafe operations of a driver are forwarded here, and nothing else is unsafe.
#[allow(unsafe_code)]
mod hooked;

pub use call::{Call, ParseCallError};
pub use count::Counted;
pub use fault::{FaultPlan, Faulty, ParseFaultPlanError};
pub use hooked::{Hook, Hooked};
