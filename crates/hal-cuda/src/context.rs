//! The backend's state, and the guard that makes a device's context current for one call.

use crate::callback;
use crate::load::{LoadError, Loaded, Status, Symbols};
use crate::machine::Machine;
use cudarc::driver::sys::{CUctx_st, CUdevice};
use parking_lot::Mutex;
use pinfold_hal::{DeviceId, DriverError, ErrorCode, Result};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Instant;

thread_local! {
    /// The context that `enter` left current on this thread, which had none; else null.
    static LEFT_HERE: Cell<*mut CUctx_st> = const { Cell::new(ptr::null_mut()) };
}

/// The CUDA backend: one for a process is enough, and more do no harm.
pub struct Cuda {
    pub(crate) symbols: Symbols,
    pub(crate) missing: Vec<String>,
    pub(crate) version: u32,
    pub(crate) slots: Box<[Slot]>,
    /// Asked on first use: NVML takes milliseconds to start.
    pub(crate) machine: OnceLock<Machine>,
    pub(crate) started: Instant,
    /// Tells this backend's host callbacks from another one's.
    instance: u64,
}

/// One device.
pub(crate) struct Slot {
    pub(crate) handle: CUdevice,
    /// The primary context while the device is open; else null.
    context: AtomicPtr<CUctx_st>,
    /// How often the device was opened and not closed yet.
    opens: Mutex<u32>,
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda")
            .field("version", &self.version)
            .field("devices", &self.slots.len())
            .finish_non_exhaustive()
    }
}

impl Cuda {
    /// Loads libcuda and starts it. Creates no context and pins nothing.
    ///
    /// # Errors
    /// [`LoadError`], which tells a missing library, a stub, a missing device and a broken or too
    /// old driver apart, and says what to do.
    pub fn load() -> std::result::Result<Self, LoadError> {
        Ok(Cuda::over(Loaded::open()?))
    }

    /// The backend over a driver that has started.
    fn over(loaded: Loaded) -> Self {
        static INSTANCES: AtomicU64 = AtomicU64::new(0);
        let slots = loaded.devices.into_iter().map(|handle| Slot {
            handle,
            context: AtomicPtr::new(ptr::null_mut()),
            opens: Mutex::new(0),
        });
        Cuda {
            symbols: loaded.symbols,
            missing: loaded.missing,
            version: loaded.version,
            slots: slots.collect(),
            machine: OnceLock::new(),
            started: Instant::now(),
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The device's slot.
    pub(crate) fn slot(&self, device: DeviceId) -> Result<&Slot> {
        self.slots.get(device.0 as usize).ok_or_else(|| {
            DriverError::with_detail(
                ErrorCode::InvalidDevice,
                "cuDeviceGet",
                format!("there is no device {device}, only {}", self.slots.len()),
            )
        })
    }

    /// Whose host callbacks these are.
    pub(crate) fn owner(&self, device: DeviceId) -> callback::Owner {
        callback::Owner {
            instance: self.instance,
            device,
        }
    }

    /// The primary context of an open device.
    pub(crate) fn context(&self, device: DeviceId) -> Result<*mut CUctx_st> {
        let context = self.slot(device)?.context.load(Ordering::Acquire);
        if context.is_null() {
            return Err(not_open(device));
        }
        Ok(context)
    }

    /// Makes the device's primary context current until the guard drops.
    ///
    /// # Errors
    /// `NotPermitted` inside a host callback, `InvalidDevice`, `InvalidContext` for a device that
    /// is not open.
    pub(crate) fn enter(&self, device: DeviceId) -> Result<Current<'_>> {
        callback::refuse_inside("cuCtxGetCurrent")?;
        let ours = self.context(device)?;
        let mut found = ptr::null_mut();
        // SAFETY: `found` is valid for the write.
        let status = unsafe { (self.symbols.cuCtxGetCurrent)(&mut found) };
        self.symbols.check("cuCtxGetCurrent", status)?;
        let mut pushed = false;
        if found.is_null() {
            // SAFETY: the device is open, so its context is alive.
            let status = unsafe { (self.symbols.cuCtxSetCurrent)(ours) };
            self.symbols.check("cuCtxSetCurrent", status)?;
            LEFT_HERE.set(ours);
        } else if found != ours {
            // SAFETY: as above.
            let status = unsafe { (self.symbols.cuCtxPushCurrent_v2)(ours) };
            self.symbols.check("cuCtxPushCurrent_v2", status)?;
            pushed = true;
        }
        Ok(Current {
            cuda: self,
            device,
            pushed,
            same_thread: PhantomData,
        })
    }

    /// Retains the primary context once more.
    pub(crate) fn retain(&self, device: DeviceId) -> Result<()> {
        callback::refuse_inside("cuDevicePrimaryCtxRetain")?;
        let slot = self.slot(device)?;
        let mut opens = slot.opens.lock();
        let mut context = ptr::null_mut();
        // SAFETY: `context` is valid for the write; the handle came from the driver.
        let status = unsafe { (self.symbols.cuDevicePrimaryCtxRetain)(&mut context, slot.handle) };
        self.symbols.check("cuDevicePrimaryCtxRetain", status)?;
        slot.context.store(context, Ordering::Release);
        *opens += 1;
        Ok(())
    }

    /// Releases the primary context once. After the last time the device is closed.
    pub(crate) fn release(&self, device: DeviceId) -> Result<()> {
        callback::refuse_inside("cuDevicePrimaryCtxRelease_v2")?;
        let slot = self.slot(device)?;
        let mut opens = slot.opens.lock();
        let Some(left) = opens.checked_sub(1) else {
            return Err(not_open(device));
        };
        if left == 0 {
            self.leave(slot.context.load(Ordering::Acquire))?;
        }
        // SAFETY: retained as often as `opens` says, which is at least once.
        let status = unsafe { (self.symbols.cuDevicePrimaryCtxRelease_v2)(slot.handle) };
        self.symbols.check("cuDevicePrimaryCtxRelease_v2", status)?;
        *opens = left;
        if left == 0 {
            slot.context.store(ptr::null_mut(), Ordering::Release);
            drop(opens);
            callback::drop_all(self.owner(device));
        }
        Ok(())
    }

    /// Takes the context off this thread if it is current only because `enter` left it there: it
    /// may be about to go. One that the caller made current stays.
    fn leave(&self, ours: *mut CUctx_st) -> Result<()> {
        if LEFT_HERE.get() != ours {
            return Ok(());
        }
        LEFT_HERE.set(ptr::null_mut());
        let mut found = ptr::null_mut();
        // SAFETY: `found` is valid for the write.
        let status = unsafe { (self.symbols.cuCtxGetCurrent)(&mut found) };
        self.symbols.check("cuCtxGetCurrent", status)?;
        if found == ours {
            // SAFETY: null takes the current context off the thread.
            let status = unsafe { (self.symbols.cuCtxSetCurrent)(ptr::null_mut()) };
            self.symbols.check("cuCtxSetCurrent", status)?;
        }
        Ok(())
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        for number in 0..self.slots.len() {
            let device = DeviceId(number as u32);
            // Ends with `InvalidContext` once closed, or with whatever stops the driver from
            // releasing. Inside a callback nothing is released: the context stays.
            while self.release(device).is_ok() {}
        }
    }
}

fn not_open(device: DeviceId) -> DriverError {
    DriverError::with_detail(
        ErrorCode::InvalidContext,
        "cuCtxGetCurrent",
        format!("device {device} is not open: call `open` before"),
    )
}

/// The device's context is current on this thread as long as this lives.
pub(crate) struct Current<'a> {
    pub(crate) cuda: &'a Cuda,
    device: DeviceId,
    /// The thread had a foreign context, which comes back.
    pushed: bool,
    /// The current context belongs to a thread, so the guard may not move to another one.
    same_thread: PhantomData<*const ()>,
}

impl Current<'_> {
    /// The driver's answer as a result. After one that tells that the context is lost, host
    /// callbacks that will now never run are dropped.
    pub(crate) fn check(&self, call: &'static str, status: Status) -> Result<()> {
        let result = self.cuda.symbols.check(call, status);
        if let Err(error) = &result
            && error.code.is_sticky()
        {
            callback::drop_all(self.cuda.owner(self.device));
        }
        result
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ptr::null_mut();
            // SAFETY: `popped` is valid for the write; this guard pushed what is popped here. A
            // failure (the driver is shutting down) leaves nothing that could be done.
            unsafe { (self.cuda.symbols.cuCtxPopCurrent_v2)(&mut popped) };
        }
    }
}

/// Calls a required entry point under the guard `$at`: `call!(at, cuMemAlloc_v2(&mut p, n))`. To be
/// written inside an `unsafe` block that says why the arguments are right.
macro_rules! call {
    ($at:expr, $name:ident($($arg:expr),* $(,)?)) => {
        $at.check(stringify!($name), ($at.cuda.symbols.$name)($($arg),*))
    };
}

/// As `call!`, for an optional entry point: returns `NotSupported` from the function where the
/// driver lacks it.
macro_rules! call_optional {
    ($at:expr, $name:ident($($arg:expr),* $(,)?)) => {
        match $at.cuda.symbols.$name {
            Some(entry) => $at.check(stringify!($name), entry($($arg),*)),
            None => return Err(crate::error::lacking(stringify!($name))),
        }
    };
}

pub(crate) use {call, call_optional};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{self, Fake};
    use pinfold_hal::{BackendOps, MemoryOps, StreamOps};
    use std::sync::Arc;

    const DEVICE: DeviceId = DeviceId(1);

    /// A backend of two devices over the fake driver, of which device 1 is open.
    fn opened() -> Cuda {
        let cuda = Cuda::over(fake::loaded(2));
        cuda.open(DEVICE).unwrap();
        cuda
    }

    fn close(cuda: &Cuda) -> Result<()> {
        // SAFETY: the fake driver has nothing that could still be used.
        unsafe { cuda.close(DEVICE) }
    }

    #[test]
    fn the_backend_goes_between_threads() {
        fn is_send_and_sync<T: Send + Sync>() {}
        is_send_and_sync::<Cuda>();
    }

    #[test]
    fn a_thread_without_a_context_keeps_ours() {
        let cuda = opened();
        assert_eq!(Fake::contexts(), []);
        cuda.device_alloc(DEVICE, 1).unwrap();
        assert_eq!(Fake::contexts(), [fake::primary(1)]);
        cuda.device_alloc(DEVICE, 1).unwrap();
        assert_eq!(Fake::contexts(), [fake::primary(1)]);
    }

    #[test]
    fn a_foreign_context_comes_back_also_after_a_failure() {
        let cuda = opened();
        Fake::set_contexts(&[0xF0]);
        cuda.device_alloc(DEVICE, 1).unwrap();
        assert_eq!(Fake::contexts(), [0xF0]);
        assert_eq!(Fake::allocated_in(), fake::primary(1));
        Fake::answer("cuMemAlloc_v2", 2);
        let error = cuda.device_alloc(DEVICE, 1).unwrap_err();
        assert_eq!(error.code, ErrorCode::OutOfMemory);
        assert_eq!(Fake::contexts(), [0xF0]);
    }

    #[test]
    fn only_the_last_close_closes_and_takes_the_context_off_the_thread() {
        let cuda = opened();
        cuda.open(DEVICE).unwrap();
        close(&cuda).unwrap();
        cuda.device_alloc(DEVICE, 1).unwrap();
        close(&cuda).unwrap();
        assert_eq!(Fake::contexts(), []);
        assert_eq!(Fake::retained(), 0);
        for error in [
            cuda.device_alloc(DEVICE, 1).unwrap_err(),
            close(&cuda).unwrap_err(),
        ] {
            assert_eq!(error.code, ErrorCode::InvalidContext);
            assert!(error.detail.contains("device 1"), "{error}");
        }
    }

    #[test]
    fn a_context_that_the_caller_made_current_stays_after_the_last_close() {
        let cuda = opened();
        Fake::set_contexts(&[fake::primary(1)]);
        cuda.device_alloc(DEVICE, 1).unwrap();
        close(&cuda).unwrap();
        assert_eq!(Fake::contexts(), [fake::primary(1)]);
    }

    #[test]
    fn dropping_the_backend_releases_what_is_open() {
        let cuda = opened();
        cuda.open(DEVICE).unwrap();
        assert_eq!(Fake::retained(), 2);
        drop(cuda);
        assert_eq!(Fake::retained(), 0);
    }

    #[test]
    fn a_device_out_of_range_is_not_asked_of_the_driver() {
        let error = opened().device_alloc(DeviceId(2), 1).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidDevice);
    }

    /// Enqueues a callback that owns `held`.
    fn enqueue(cuda: &Cuda, held: &Arc<()>) -> Result<()> {
        let held = Arc::clone(held);
        let stream = cuda.default_stream(DEVICE);
        cuda.host_callback(stream, Box::new(move || drop(held)))
    }

    #[test]
    fn a_callback_that_is_not_enqueued_is_dropped() {
        let (cuda, held) = (opened(), Arc::new(()));
        Fake::answer("cuLaunchHostFunc", 1);
        assert_eq!(
            enqueue(&cuda, &held).unwrap_err().code,
            ErrorCode::InvalidValue
        );
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_callback_runs_in_its_turn_and_is_dropped_when_the_context_is_lost() {
        let (cuda, held) = (opened(), Arc::new(()));
        enqueue(&cuda, &held).unwrap();
        assert_eq!(Arc::strong_count(&held), 2);
        Fake::run_callbacks();
        assert_eq!(Arc::strong_count(&held), 1);

        enqueue(&cuda, &held).unwrap();
        Fake::answer("cuMemAlloc_v2", 700);
        assert!(cuda.device_alloc(DEVICE, 1).unwrap_err().code.is_sticky());
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_driver_call_from_inside_a_callback_is_refused_and_never_reaches_the_driver() {
        let cuda = Arc::new(opened());
        let (inner, (sender, answers)) = (Arc::clone(&cuda), std::sync::mpsc::channel());
        let callback = move || {
            sender
                .send(inner.device_alloc(DEVICE, 1).map(drop))
                .unwrap();
            sender.send(inner.open(DEVICE)).unwrap();
            // SAFETY: refused, so nothing ends.
            sender.send(unsafe { inner.close(DEVICE) }).unwrap();
            sender.send(inner.device_info(DEVICE).map(drop)).unwrap();
            panic!("on purpose");
        };
        let stream = cuda.default_stream(DEVICE);
        cuda.host_callback(stream, Box::new(callback)).unwrap();
        Fake::run_callbacks();
        let codes: Vec<_> = answers
            .iter()
            .map(|answer| answer.unwrap_err().code)
            .collect();
        assert_eq!(codes, [ErrorCode::NotPermitted; 4]);
        assert_eq!((Fake::allocated_in(), Fake::retained()), (0, 1));
        // Outside again, even after a panic, calls work.
        cuda.device_alloc(DEVICE, 1).unwrap();
    }

    #[test]
    fn a_backend_that_drops_inside_a_callback_calls_no_driver() {
        let cuda = Arc::new(opened());
        let (inner, stream) = (Arc::clone(&cuda), cuda.default_stream(DEVICE));
        cuda.host_callback(stream, Box::new(move || drop(inner)))
            .unwrap();
        drop(cuda);
        Fake::run_callbacks();
        assert_eq!(Fake::retained(), 1);
    }

    #[test]
    fn a_callback_is_refused_in_a_capture() {
        let (cuda, held) = (opened(), Arc::new(()));
        Fake::answer("capture status", 1);
        Fake::answer("cuStreamQuery", 900);
        let error = enqueue(&cuda, &held).unwrap_err();
        assert_eq!(error.code, ErrorCode::StreamCaptureUnsupported);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_query_that_is_not_ready_is_false() {
        let cuda = opened();
        let stream = cuda.default_stream(DEVICE);
        assert_eq!(cuda.stream_query(stream), Ok(true));
        Fake::answer("cuStreamQuery", 600);
        assert_eq!(cuda.stream_query(stream), Ok(false));
    }

    #[test]
    fn an_absent_entry_point_is_not_supported() {
        let cuda = opened();
        // The fake has no IPC.
        let event = pinfold_hal::EventId {
            device: DEVICE,
            raw: 7,
        };
        let error = pinfold_hal::EventOps::event_export(&cuda, event).unwrap_err();
        assert_eq!(error.code, ErrorCode::NotSupported);
        assert!(error.to_string().contains("cuIpcGetEventHandle"), "{error}");
        assert!(
            cuda.info()
                .missing_symbols
                .contains(&"cuIpcGetEventHandle".to_owned())
        );
    }
}
