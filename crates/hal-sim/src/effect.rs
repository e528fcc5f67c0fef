//! How operations take effect: at once, at the last moment, or bit by bit as a seed says.
//!
//! Whatever the policy, an operation takes effect after all that it comes after, and before anyone
//! can know that it is done. What a kernel writes to host memory shows there no earlier than the
//! kernel ends: a host that polls for it must not be faster than the device.

use crate::address::DeviceSpan;
use crate::hazard::as_callback;
use crate::operation::{HostSource, Kernel, KernelArg, Operation, Work};
use crate::policy::Policy;
use crate::raw::{AlignedBytes, HostSpan, RawArg, with_args};
use crate::world::{POISON, World};
use pinfold_hal::{Access, ErrorCode, TwinCall};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Most pieces that a copy is torn into.
const PIECES_MAX: usize = 8;
/// Pieces are whole multiples of this, but for the last.
const PIECE_ALIGN_BYTES: usize = 64;
/// Most steps that a seed takes in one call.
const STEPS_MAX: usize = 3;
/// How many pending operations a seed chooses among.
const CHOICE_MAX: usize = 64;

/// Bytes that a copy inside a device carries at a time.
const CARRIED_BYTES_MAX: usize = 1 << 20;

/// How far an operation is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// One step of several.
    Step,
    /// As far as virtual time allows.
    Due,
    /// To its end.
    End,
}

impl World {
    /// Under a seed, some ready operations make some progress. Called by every call.
    pub(crate) fn progress(&mut self) {
        if !matches!(self.options.policy, Policy::Seeded(_)) {
            return;
        }
        for _ in 0..self.numbers.below(STEPS_MAX + 1) {
            let oldest = self.pending.iter().take(CHOICE_MAX);
            let ready: Vec<u64> = oldest.filter(|&&id| self.is_ready(id)).copied().collect();
            if ready.is_empty() {
                return;
            }
            let chosen = ready[self.numbers.below(ready.len())];
            self.advance(chosen, Reach::Step);
        }
    }

    fn is_ready(&self, id: u64) -> bool {
        let operation = self.operations.get(&id);
        operation.is_some_and(|op| {
            !self.is_early(op) && op.after.iter().all(|before| !self.pending.contains(before))
        })
    }

    /// True where the host would see it before its time.
    fn is_early(&self, operation: &Operation) -> bool {
        matches!(operation.work, Work::Commit(_)) && operation.end_ps > self.clock_ps
    }

    /// Under the eager policy, a new operation takes effect at once, unless it has to come after
    /// one that cannot yet.
    pub(crate) fn begin(&mut self, id: u64) {
        if self.options.policy == Policy::Eager && self.is_ready(id) {
            self.advance(id, Reach::Due);
        }
    }

    /// Under the eager policy, what had to come after other operations takes effect as soon as
    /// those have.
    fn catch_up(&mut self) {
        if self.options.policy == Policy::Eager {
            let pending: Vec<u64> = self.pending.iter().copied().collect();
            pending.into_iter().for_each(|id| self.begin(id));
        }
    }

    /// Lets operations take effect, and before them all that they come after. What comes before has
    /// the smaller number, so that the order of the numbers is an order to run in.
    pub(crate) fn force(&mut self, ids: &[u64]) {
        let mut needed = BTreeSet::new();
        let mut todo = ids.to_vec();
        while let Some(id) = todo.pop() {
            if self.pending.contains(&id)
                && needed.insert(id)
                && let Some(operation) = self.operations.get(&id)
            {
                todo.extend(&operation.after);
            }
        }
        if needed.is_empty() {
            return;
        }
        for id in needed {
            self.advance(id, Reach::End);
        }
        self.catch_up();
    }

    /// Takes an operation one step on, or to its end.
    fn advance(&mut self, id: u64, reach: Reach) {
        let Some(mut operation) = self.operations.remove(&id) else {
            return;
        };
        let mut done = self.step(&mut operation, reach);
        while !done && (reach == Reach::End || (reach == Reach::Due && !self.is_early(&operation)))
        {
            done = self.step(&mut operation, reach);
        }
        if done {
            self.pending.remove(&id);
        }
        self.operations.insert(id, operation);
    }

    /// One step; true once the operation has taken effect. Work of a lost device is dropped.
    fn step(&mut self, operation: &mut Operation, reach: Reach) -> bool {
        if self.is_lost(operation.device) {
            operation.discard(self.clock_ps);
            return true;
        }
        match &mut operation.work {
            Work::Mark => return true,
            Work::ToDevice { .. } | Work::ToHost { .. } | Work::OnDevice { .. } => {
                let (offset, bytes) = self.next_piece(operation, reach);
                self.copy_piece(&operation.work, offset, bytes);
                return operation.pieces.as_ref().is_none_or(Vec::is_empty);
            }
            _ => {}
        }
        match std::mem::replace(&mut operation.work, Work::Mark) {
            Work::Fill { to, byte } => {
                if let Some(bytes) = self.blocks.bytes_mut(to, self.poison()) {
                    bytes.fill(byte);
                }
            }
            Work::Kernel(kernel) => match self.run_kernel(&kernel) {
                Ok(written) if written.is_empty() => {}
                Ok(written) => {
                    operation.work = Work::Commit(written);
                    return false;
                }
                Err(what) => {
                    let what = format!("kernel {}: {what}", kernel.twin.name);
                    self.lose(operation.device, ErrorCode::IllegalAddress, what);
                }
            },
            Work::Commit(written) => commit(&written),
            Work::Fault(what) => self.lose(operation.device, ErrorCode::IllegalAddress, what),
            Work::Callback(callback) => {
                let run = || catch_unwind(AssertUnwindSafe(callback));
                if as_callback(self.clock_ps, run).is_err() {
                    self.hazards
                        .note("cuLaunchHostFunc", "the callback panicked");
                }
            }
            Work::Mark | Work::ToDevice { .. } | Work::ToHost { .. } | Work::OnDevice { .. } => {}
        }
        true
    }

    fn poison(&self) -> Option<u8> {
        self.options.poisons().then_some(POISON)
    }

    /// The next piece of a copy: all of it, or one of several in an order of the seed's.
    fn next_piece(&mut self, operation: &mut Operation, reach: Reach) -> (usize, usize) {
        let bytes = match &operation.work {
            Work::ToDevice { to, .. } | Work::OnDevice { to, .. } => to.bytes,
            Work::ToHost { to, .. } => to.bytes(),
            _ => 0,
        };
        if operation.pieces.is_none() && reach != Reach::Step {
            return (0, bytes);
        }
        let numbers = &mut self.numbers;
        let pieces = operation.pieces.get_or_insert_with(|| {
            let size = bytes
                .div_ceil(PIECES_MAX)
                .next_multiple_of(PIECE_ALIGN_BYTES);
            let starts = (0..bytes).step_by(size);
            let mut pieces: Vec<_> = starts.map(|at| (at, size.min(bytes - at))).collect();
            numbers.shuffle(&mut pieces);
            pieces
        });
        pieces.pop().unwrap_or((0, 0))
    }

    fn copy_piece(&mut self, work: &Work, offset: usize, bytes: usize) {
        let poison = self.poison();
        let device_part = |span: &DeviceSpan| span.part(offset, bytes);
        match work {
            Work::ToDevice { to, from } => {
                let Some(target) = self.blocks.bytes_mut(device_part(to), poison) else {
                    return;
                };
                match from {
                    HostSource::Staged(staged) => {
                        target.copy_from_slice(&staged[offset..offset + bytes]);
                    }
                    HostSource::Span(span) => {
                        if let Some(part) = span.part(offset, bytes) {
                            part.load(target);
                        }
                    }
                }
            }
            Work::ToHost { to, from } => {
                let source = self.blocks.bytes_mut(device_part(from), poison);
                if let (Some(source), Some(part)) = (source, to.part(offset, bytes)) {
                    part.store(source);
                }
            }
            Work::OnDevice { to, from } => self.copy_between(device_part(to), device_part(from)),
            _ => {}
        }
    }

    /// Copies between two spans of device memory, which may lie in one block.
    fn copy_between(&mut self, to: DeviceSpan, from: DeviceSpan) {
        let poison = self.poison();
        let mut carried = vec![0; from.bytes.min(CARRIED_BYTES_MAX)];
        for offset in (0..from.bytes).step_by(CARRIED_BYTES_MAX) {
            let bytes = CARRIED_BYTES_MAX.min(from.bytes - offset);
            let carried = &mut carried[..bytes];
            if let Some(source) = self.blocks.bytes_mut(from.part(offset, bytes), poison) {
                carried.copy_from_slice(source);
            }
            if let Some(target) = self.blocks.bytes_mut(to.part(offset, bytes), poison) {
                target.copy_from_slice(carried);
            }
        }
    }

    /// Runs a twin. What it wrote to host memory comes back, to be committed later: the device
    /// holds it where the host cannot see it yet.
    fn run_kernel(&mut self, kernel: &Kernel) -> Result<Vec<(HostSpan, AlignedBytes)>, String> {
        let (mut homes, mut blocks) = (Vec::new(), Vec::new());
        for arg in &kernel.args {
            if let KernelArg::Device { span, .. } = arg
                && !homes.contains(&span.block)
                && let Some(memory) = self.blocks.take(span.block, self.poison())
            {
                homes.push(span.block);
                blocks.push(memory);
            }
        }
        // A twin must not call the driver either: the simulation is locked.
        let result = as_callback(self.clock_ps, || run_on(kernel, &homes, &mut blocks));
        let shadows = blocks.split_off(homes.len());
        for (home, memory) in homes.into_iter().zip(blocks) {
            self.blocks.put_back(home, memory);
        }
        let written = result?.into_iter().zip(shadows);
        Ok(written
            .filter_map(|(span, shadow)| Some((span?, shadow)))
            .collect())
    }
}

/// Runs a twin on the blocks of device memory, to which shadows of host memory are added. Says for
/// each shadow where its contents have to go, if anywhere.
fn run_on(
    kernel: &Kernel,
    homes: &[u64],
    blocks: &mut Vec<AlignedBytes>,
) -> Result<Vec<Option<HostSpan>>, String> {
    let (mut args, mut targets) = (Vec::new(), Vec::new());
    for arg in &kernel.args {
        args.push(match arg {
            KernelArg::Scalar(scalar) => RawArg::Scalar(*scalar),
            KernelArg::Device { span, write } => RawArg::Block {
                block: homes
                    .iter()
                    .position(|&home| home == span.block)
                    .unwrap_or(usize::MAX),
                offset: span.offset,
                bytes: span.bytes,
                write: *write,
            },
            KernelArg::Host { span, access } if *access == Access::Read && !span.is_wordwise() => {
                RawArg::Host(*span)
            }
            KernelArg::Host { span, access } => {
                let shadow = AlignedBytes::zeroed(span.bytes());
                let mut shadow = shadow.ok_or("no memory for the kernel's view of host memory")?;
                span.load(&mut shadow.as_mut_slice()[..span.bytes()]);
                blocks.push(shadow);
                targets.push(access.writes().then_some(*span));
                RawArg::Block {
                    block: blocks.len() - 1,
                    offset: 0,
                    bytes: span.bytes(),
                    write: access.writes(),
                }
            }
            KernelArg::Empty { write } => {
                blocks.push(AlignedBytes::zeroed(0).ok_or("no memory for an empty argument")?);
                targets.push(None);
                RawArg::Block {
                    block: blocks.len() - 1,
                    offset: 0,
                    bytes: 0,
                    write: *write,
                }
            }
        });
    }
    with_args(blocks, &args, |args| {
        let mut call = TwinCall {
            grid: kernel.grid,
            block: kernel.block,
            args,
        };
        let body = AssertUnwindSafe(|| (kernel.twin.body)(&mut call));
        match catch_unwind(body) {
            Ok(result) => result.map_err(|e| e.to_string()),
            Err(_) => Err("the twin panicked".into()),
        }
    })??;
    Ok(targets)
}

/// Makes a kernel's writes to host memory visible: flags last, so that who sees a flag sees the
/// data.
fn commit(written: &[(HostSpan, AlignedBytes)]) {
    let large = written.iter().filter(|(span, _)| !span.is_wordwise());
    let small = written.iter().filter(|(span, _)| span.is_wordwise());
    for (span, shadow) in large.chain(small) {
        span.store(&shadow.as_slice()[..span.bytes()]);
    }
}
