//! What may lie in a buffer.

/// An element of a buffer: plain data for which every bit pattern is a valid value, so that
/// whatever a device writes can be read. Implemented for all such types by themselves.
pub trait Element: bytemuck::Pod + Send + Sync {}

impl<T: bytemuck::Pod + Send + Sync> Element for T {}
