//! Predicted times: a profile and plain numbers in, nanoseconds out.
//!
//! [`copy`] transfers by the driver · [`kernel`] what a kernel spends on memory · [`pin`] what
//! page-locking costs and when it pays · [`stage`] ordinary memory carried by host threads ·
//! [`pcie`] what the link can do in theory.

pub mod copy;
pub mod kernel;
pub mod pcie;
pub mod pin;
pub mod stage;

pub use copy::{both_directions_slowdown, copy_engine_ns, copy_ns, copy_start_ns};
pub use kernel::{
    copied_then_read_ns, kernel_device_memory_ns, launch_and_wait_ns, window_order_ns, zero_copy_ns,
};
pub use pin::{allocate_ns, break_even_uses, free_ns, pinning_break_even_uses};
pub use stage::{staged_bytes_per_s, staged_ns};
