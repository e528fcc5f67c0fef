//! Machine profiles and the cost model: pure arithmetic.
//!
//! A [`Profile`] says what a machine is and what its transfers cost. It is a TOML file in which
//! every number is marked *measured* or *assumed*. The functions of [`cost`] turn a profile into
//! predicted nanoseconds. Nothing here touches a device, a file or a clock, so that a prediction
//! can be checked by hand.
//!
//! ```
//! use pinfold_model::{Direction, MemoryKind, Profile, cost};
//!
//! let h200 = Profile::h200();
//! let pageable = cost::copy_ns(&h200, Direction::ToDevice, MemoryKind::Pageable, 1 << 28);
//! let page_locked = cost::copy_ns(&h200, Direction::ToDevice, MemoryKind::PageLocked, 1 << 28);
//! assert!(pageable > 5.0 * page_locked);
//! ```
//!
//! Rooms: [`profile`] the machine and its TOML form · [`sections`] its parts · [`value`] a number
//! with its source · [`table`] measured curves and their interpolation · [`shipped`] the profiles
//! that come with pinfold · [`kinds`] the plain words that costs are asked in · [`cost`] the
//! formulas.

#![forbid(unsafe_code)]

pub mod cost;
pub mod kinds;
pub mod profile;
pub mod sections;
pub mod shipped;
pub mod table;
pub mod value;

pub use kinds::{Access, Direction, MemoryKind, Pattern};
pub use profile::{Profile, ProfileError};
pub use table::{RateTable, RowTable};
pub use value::{Quantity, Source};
