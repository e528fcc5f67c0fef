//! When is what was enqueued done?
//!
//! Every operation of a stream has a *place*: 1 for the first, and so on. To wait for a place
//! exactly, there has to be an event recorded right behind it. Recording one each time would
//! cost 0.2 µs an operation, so an event (here: a *mark*) is recorded late: when somebody wants to
//! wait for the place later, and the next operation is about to be enqueued. While nothing was
//! enqueued behind, waiting for the stream is just as exact and needs no mark.
//!
//! No driver call is made while the lock on the marks is held.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::thread;
use parking_lot::{Mutex, ReentrantMutex};
use pinfold_hal::{EventId, StreamId};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Places, marks and completion of one stream. Shared by the stream and all buffers that it used.
pub(crate) struct StreamOrder {
    device: Device,
    id: StreamId,
    owned: bool,
    /// The place of the last operation; 0 where there was none.
    tail: AtomicU64,
    /// The highest place that somebody wants to wait for exactly.
    wanted: AtomicU64,
    /// Everything up to this place is known to be done.
    done: AtomicU64,
    /// The device no longer touches memory.
    lost: AtomicBool,
    /// Events by the place that they stand behind, ascending.
    marks: Mutex<VecDeque<(u64, Arc<Mark>)>>,
}

/// An event recorded behind a place. Goes back to the device's spare events with its last holder.
pub(crate) struct Mark {
    device: Device,
    event: EventId,
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.device.return_event(self.event);
    }
}

/// Held from asking what an operation has to wait for until its uses are noted, where it uses
/// blocks of graphs. Elsewhere exclusive borrows keep conflicting operations apart; a launch of a
/// graph borrows none of its blocks. No allocation ever takes it.
pub(crate) static GRAPHS_TURN: ReentrantMutex<()> = ReentrantMutex::new(());

/// How many marks one look asks for.
const LOOKS_MAX: usize = 8;
/// More marks than this are never kept: the oldest ones are waited for.
const MARKS_MAX: usize = 4096;

impl StreamOrder {
    pub(crate) fn new(device: Device, id: StreamId, owned: bool) -> Self {
        StreamOrder {
            device,
            id,
            owned,
            tail: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            done: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            marks: Mutex::new(VecDeque::new()),
        }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    /// To be called before an operation is enqueued: places the mark that somebody wants.
    pub(crate) fn before_enqueue(&self) -> Result<()> {
        let tail = self.tail.load(Ordering::Relaxed);
        if tail != 0
            && self.wanted.load(Ordering::Acquire) == tail
            && self.done.load(Ordering::Acquire) < tail
        {
            self.mark(tail)?;
        }
        Ok(())
    }

    /// To be called after an operation was enqueued. Returns its place.
    pub(crate) fn enqueued(&self) -> u64 {
        self.tail.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The place of the last operation.
    pub(crate) fn tail(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    /// Says that somebody will wait for the place.
    pub(crate) fn want(&self, place: u64) {
        self.wanted.fetch_max(place, Ordering::AcqRel);
    }

    /// Says that one who wanted to wait for the place does not any more.
    fn unwant(&self, place: u64) {
        let ends = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.wanted.compare_exchange(place, 0, ends.0, ends.1);
    }

    /// A mark behind the place, the earliest there is, or a new one behind all there is now.
    pub(crate) fn mark(&self, place: u64) -> Result<Arc<Mark>> {
        if let Some(mark) = self.find(place) {
            return Ok(mark);
        }
        self.limit_marks()?;
        let event = self.device.take_event()?;
        let mark = Arc::new(Mark {
            device: self.device.clone(),
            event,
        });
        // Read before recording: the event covers at least this place, perhaps more.
        let covered = self.tail.load(Ordering::Acquire);
        self.device
            .driver()
            .event_record(event, self.id)
            .map_err(Error::driver("recording an event"))?;
        let mut marks = self.marks.lock();
        let at = marks.partition_point(|(p, _)| *p < covered);
        marks.insert(at, (covered, mark.clone()));
        Ok(mark)
    }

    /// Makes `later`'s next operation wait for the place in this stream.
    pub(crate) fn make_wait(&self, place: u64, later: &StreamOrder) -> Result<()> {
        if self.done.load(Ordering::Acquire) >= place {
            return Ok(());
        }
        let mark = self.mark(place)?;
        later
            .device
            .driver()
            .stream_wait_event(later.id, mark.event)
            .map_err(Error::driver("ordering two streams"))
    }

    /// Waits until the place is done.
    pub(crate) fn wait_for(&self, place: u64) -> Result<()> {
        if self.done.load(Ordering::Acquire) >= place {
            return Ok(());
        }
        thread::refuse("waiting for a stream")?;
        match self.find(place) {
            Some(mark) => {
                self.device
                    .driver()
                    .event_synchronize(mark.event)
                    .map_err(Error::driver("waiting for the device"))?;
                self.finished(place);
                Ok(())
            }
            None => self.synchronize(),
        }
    }

    /// Waits for everything enqueued so far.
    pub(crate) fn synchronize(&self) -> Result<()> {
        thread::refuse("waiting for a stream")?;
        let tail = self.tail.load(Ordering::Acquire);
        self.device
            .driver()
            .stream_synchronize(self.id)
            .map_err(Error::driver("waiting for the device"))?;
        self.finished(tail);
        Ok(())
    }

    /// Waits for everything enqueued so far by way of the whole device.
    fn settle(&self) -> Result<()> {
        let tail = self.tail.load(Ordering::Acquire);
        self.device.settle()?;
        self.finished(tail);
        Ok(())
    }

    /// True once the place is done. Never waits.
    pub(crate) fn is_done(&self, place: u64) -> Result<bool> {
        if self.done.load(Ordering::Acquire) >= place {
            return Ok(true);
        }
        let Some(mark) = self.find(place) else {
            return self.is_idle();
        };
        thread::refuse("asking for a stream")?;
        let reached = self
            .device
            .driver()
            .event_query(mark.event)
            .map_err(Error::driver("asking for the device"))?;
        if reached {
            self.finished(place);
        }
        Ok(reached)
    }

    /// True once everything enqueued so far is done.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        thread::refuse("asking for a stream")?;
        let tail = self.tail.load(Ordering::Acquire);
        let idle = self
            .device
            .driver()
            .stream_query(self.id)
            .map_err(Error::driver("asking for the device"))?;
        if idle {
            self.finished(tail);
        }
        Ok(idle)
    }

    /// True where the place is known to be done. Asks nobody.
    pub(crate) fn is_known_done(&self, place: u64) -> bool {
        self.done.load(Ordering::Acquire) >= place
    }

    /// True where the device is known not to touch the place's memory any more: it is done, or it
    /// is lost. Asks nobody.
    fn is_known_gone(&self, place: u64) -> bool {
        self.is_known_done(place) || self.lost.load(Ordering::Acquire)
    }

    /// Asks the device how far it is: whether it has done everything, else which of the oldest
    /// marks it has passed.
    ///
    /// # Errors
    /// Where the driver cannot tell; also where the device is lost, which is remembered.
    pub(crate) fn look(&self) -> Result<()> {
        let looked = self.look_at_marks();
        if looked.as_ref().is_err_and(Error::device_is_lost) {
            self.lost.store(true, Ordering::Release);
        }
        looked
    }

    fn look_at_marks(&self) -> Result<()> {
        if self.is_idle()? {
            return Ok(());
        }
        for _ in 0..LOOKS_MAX {
            let oldest = self.marks.lock().front().cloned();
            let Some((place, mark)) = oldest else { break };
            let reached = self.device.driver().event_query(mark.event);
            if !reached.map_err(Error::driver("asking for the device"))? {
                break;
            }
            self.finished(place);
        }
        Ok(())
    }

    /// Makes sure that there is a mark behind a place that is not done.
    pub(crate) fn mark_pending(&self, place: u64) -> Result<()> {
        if !self.is_known_done(place) {
            self.mark(place)?;
        }
        Ok(())
    }

    fn find(&self, place: u64) -> Option<Arc<Mark>> {
        let marks = self.marks.lock();
        let at = marks.partition_point(|(p, _)| *p < place);
        marks.get(at).map(|(_, mark)| mark.clone())
    }

    /// Notes that everything up to the place is done, and drops the marks of that part. Dropping
    /// may reach the driver, so it happens behind the lock.
    fn finished(&self, place: u64) {
        self.done.fetch_max(place, Ordering::AcqRel);
        let dropped: SmallVec<[_; 4]> = {
            let mut marks = self.marks.lock();
            let at = marks.partition_point(|(p, _)| *p <= place);
            marks.drain(..at).collect()
        };
        drop(dropped);
    }

    /// Keeps the number of marks bounded.
    fn limit_marks(&self) -> Result<()> {
        let oldest = {
            let marks = self.marks.lock();
            if marks.len() < MARKS_MAX {
                return Ok(());
            }
            marks.get(MARKS_MAX / 2).map(|(place, _)| *place)
        };
        oldest.map_or(Ok(()), |place| self.wait_for(place))
    }
}

impl Drop for StreamOrder {
    fn drop(&mut self) {
        self.marks.get_mut().clear();
        if self.owned {
            // SAFETY: the stream was made for this object, whose last holder is gone; work still
            // in it runs to its end. A failure can only mean that the context is gone.
            let _ = unsafe { self.device.driver().stream_destroy(self.id) };
        }
    }
}

/// The uses of one block of memory by streams, as far as later ones must be ordered after them.
#[derive(Default)]
pub(crate) struct UseLog {
    write: Option<Use>,
    reads: SmallVec<[Use; 1]>,
}

/// One use.
pub(crate) struct Use {
    order: Arc<StreamOrder>,
    place: u64,
}

impl UseLog {
    /// What a new operation on `stream` has to wait for: uses on other streams that it conflicts
    /// with.
    pub(crate) fn conflicts(
        &self,
        stream: &Arc<StreamOrder>,
        writes: bool,
        found: &mut SmallVec<[(Arc<StreamOrder>, u64); 4]>,
    ) {
        let reads = self.reads.iter().filter(|_| writes);
        for earlier in self.write.iter().chain(reads) {
            if !Arc::ptr_eq(&earlier.order, stream) {
                found.push((earlier.order.clone(), earlier.place));
            }
        }
    }

    /// Notes an operation that was ordered after all conflicting ones. Returns the uses that do not
    /// count any more: dropping them may reach the driver, so it happens behind the caller's lock.
    #[must_use]
    pub(crate) fn note(
        &mut self,
        stream: &Arc<StreamOrder>,
        place: u64,
        writes: bool,
    ) -> SmallVec<[Use; 1]> {
        let new = Use {
            order: stream.clone(),
            place,
        };
        if writes {
            let mut old: SmallVec<[Use; 1]> = std::mem::take(&mut self.reads);
            old.extend(self.write.replace(new));
            return old;
        }
        let mut old = self.take_done();
        match self
            .reads
            .iter_mut()
            .find(|r| Arc::ptr_eq(&r.order, stream))
        {
            Some(read) => old.push(std::mem::replace(read, new)),
            None => self.reads.push(new),
        }
        old
    }

    /// Takes out the uses that are known to be done.
    #[must_use]
    pub(crate) fn take_done(&mut self) -> SmallVec<[Use; 1]> {
        let mut done: SmallVec<[Use; 1]> = SmallVec::new();
        let is_done = |u: &Use| u.order.is_known_done(u.place);
        if self.write.as_ref().is_some_and(is_done) {
            done.extend(self.write.take());
        }
        while let Some(at) = self.reads.iter().position(is_done) {
            done.push(self.reads.swap_remove(at));
        }
        done
    }

    /// The uses that are not known to be done, for a caller who asks or waits without the lock.
    pub(crate) fn snapshot(&self) -> SmallVec<[(Arc<StreamOrder>, u64); 2]> {
        self.pending()
            .map(|(o, place)| (o.clone(), place))
            .collect()
    }

    /// Says that somebody will wait for all of the uses.
    pub(crate) fn want(&self) {
        self.all().for_each(|u| u.order.want(u.place));
    }

    /// Says that nobody will wait for any one of the uses.
    pub(crate) fn unwant(&self) {
        self.all().for_each(|u| u.order.unwant(u.place));
    }

    /// Waits for every use by whatever means there are, for a caller who is about to let the
    /// memory go.
    ///
    /// # Errors
    /// As [`Device::settle`]; a refused wait goes before a lost device.
    pub(crate) fn settle(&self) -> Result<()> {
        let mut outcome = Ok(());
        for u in self.all() {
            let settled = match u.order.wait_for(u.place) {
                Err(error) if !error.device_is_lost() => u.order.settle(),
                waited => waited,
            };
            match settled {
                Err(error) if !error.device_is_lost() => return Err(error),
                Err(lost) => outcome = Err(lost),
                Ok(()) => {}
            }
        }
        outcome
    }

    /// Uses that are not known to be done: streams, and places in them.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (&Arc<StreamOrder>, u64)> {
        let pending = self.all().filter(|u| !u.order.is_known_done(u.place));
        pending.map(|u| (&u.order, u.place))
    }

    /// True where no device touches the memory any more, as far as is known: all uses are done, or
    /// their device is lost. Asks nobody.
    pub(crate) fn is_known_gone(&self) -> bool {
        self.all().all(|u| u.order.is_known_gone(u.place))
    }

    fn all(&self) -> impl Iterator<Item = &Use> {
        self.write.iter().chain(self.reads.iter())
    }
}
