//! A thread's own slots, taken and given back without any lock.
//!
//! A cache fills itself from the shared slots in batches, and gives half of a full stack back. Any
//! thread may give back what another one took.

use crate::classes::{CLASSES, Class};
use crate::shared::Shared;

/// Most bytes of one class in a cache.
const STACK_BYTES_MAX: u64 = 1 << 20;
/// Most slots of one class in a cache.
const STACK_SLOTS_MAX: usize = 128;

/// Slots by class, for one thread.
#[derive(Debug)]
pub struct Cache {
    stacks: [Vec<u64>; CLASSES],
    bytes: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Cache {
            stacks: [const { Vec::new() }; CLASSES],
            bytes: 0,
        }
    }
}

/// Most slots of the class that a cache keeps.
fn stack_slots(class: Class) -> usize {
    ((STACK_BYTES_MAX / class.bytes()) as usize).clamp(1, STACK_SLOTS_MAX)
}

impl Cache {
    /// Bytes of all slots in the cache.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A slot of the cache's own.
    #[inline]
    pub fn pop(&mut self, class: Class) -> Option<u64> {
        let slot = self.stacks[class.index()].pop()?;
        self.bytes -= class.bytes();
        Some(slot)
    }

    /// Fills the class's stack to half, and takes a slot. `None` where a segment is wanted.
    #[cold]
    pub fn refill(&mut self, class: Class, shared: &Shared) -> Option<u64> {
        let want = stack_slots(class).div_ceil(2);
        let stack = &mut self.stacks[class.index()];
        let taken = shared.take_slots(class, want, stack);
        self.bytes += taken as u64 * class.bytes();
        self.pop(class)
    }

    /// Keeps a slot, and gives half of the stack back where it is full.
    #[inline]
    pub fn push(&mut self, class: Class, slot: u64, shared: &Shared) {
        let stack = &mut self.stacks[class.index()];
        stack.push(slot);
        self.bytes += class.bytes();
        if stack.len() > stack_slots(class) {
            self.spill(class, shared);
        }
    }

    #[cold]
    fn spill(&mut self, class: Class, shared: &Shared) {
        let stack = &mut self.stacks[class.index()];
        // The older half: the younger one is what the processor's caches still hold.
        let half = stack.len().div_ceil(2);
        self.bytes -= half as u64 * class.bytes();
        shared.give_back_slots(class, stack.drain(..half));
    }

    /// Gives everything back.
    pub fn flush(&mut self, shared: &Shared) {
        for class in Class::all() {
            let stack = &mut self.stacks[class.index()];
            if !stack.is_empty() {
                shared.give_back_slots(class, stack.drain(..));
            }
        }
        self.bytes = 0;
    }
}
