//! A thread's own slots, taken and given back without any lock.
//!
//! A cache fills itself from the shared slots in batches, and gives half of a full stack back. Any
//! thread may give back what another one took.

use crate::classes::{self, CLASSES, Class};
use crate::shared::Shared;

/// Most bytes of one class in a cache.
const STACK_BYTES_MAX: u64 = 1 << 20;
/// Most slots of one class in a cache.
const STACK_SLOTS_MAX: usize = 128;

/// Most slots of a class that a cache keeps, by class.
const STACK_SLOTS: [usize; CLASSES] = {
    let mut slots = [1; CLASSES];
    let mut index = 0;
    while index < CLASSES {
        let fit = (STACK_BYTES_MAX / classes::BYTES[index]) as usize;
        slots[index] = if fit > STACK_SLOTS_MAX {
            STACK_SLOTS_MAX
        } else {
            fit
        };
        index += 1;
    }
    slots
};

/// Slots by class, for one thread.
#[derive(Debug)]
pub struct Cache {
    stacks: [Vec<u64>; CLASSES],
}

impl Default for Cache {
    fn default() -> Self {
        Cache {
            stacks: [const { Vec::new() }; CLASSES],
        }
    }
}

impl Cache {
    /// A slot of the cache's own.
    #[inline]
    pub fn pop(&mut self, class: Class) -> Option<u64> {
        self.stacks[class.index()].pop()
    }

    /// Fills the class's stack to half, and takes a slot. `None` where a segment is wanted.
    #[cold]
    pub fn refill(&mut self, class: Class, shared: &Shared) -> Option<u64> {
        let limit = STACK_SLOTS[class.index()];
        let stack = &mut self.stacks[class.index()];
        // Room for all that it may ever hold, so that giving back never waits for an allocation.
        stack.reserve(limit + 1);
        shared.take_slots(class, limit.div_ceil(2), stack);
        stack.pop()
    }

    /// Keeps a slot, and gives half of the stack back where it is full.
    #[inline]
    pub fn push(&mut self, class: Class, slot: u64, shared: &Shared) {
        let stack = &mut self.stacks[class.index()];
        stack.push(slot);
        if stack.len() > STACK_SLOTS[class.index()] {
            self.spill(class, shared);
        }
    }

    #[cold]
    fn spill(&mut self, class: Class, shared: &Shared) {
        let stack = &mut self.stacks[class.index()];
        // The older half: the younger one is what the processor's caches still hold.
        let half = stack.len().div_ceil(2);
        shared.give_back_slots(class, stack.drain(..half));
    }

    /// Gives everything back.
    pub fn flush(&mut self, shared: &Shared) {
        for (class, stack) in Class::all().zip(&mut self.stacks) {
            if !stack.is_empty() {
                shared.give_back_slots(class, stack.drain(..));
            }
        }
    }
}
