//! A driver for unit tests: contexts, one allocation call and host callbacks, each thread its own.

use crate::load::{Loaded, SUCCESS, Status, Symbols};
use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUhostFn, CUstream};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_uint, c_void};
use std::ptr;

#[derive(Default)]
struct State {
    /// The thread's context stack; the last one is current.
    contexts: Vec<usize>,
    retained: i32,
    allocated_in: usize,
    /// What the named calls answer; success unless listed.
    answers: BTreeMap<&'static str, Status>,
    callbacks: Vec<(CUhostFn, usize)>,
}

thread_local!(static STATE: RefCell<State> = RefCell::default());

/// The primary context of a device.
pub(crate) fn primary(device: CUdevice) -> usize {
    0x1000 + device as usize
}

/// The calling thread's fake driver.
pub(crate) struct Fake;

impl Fake {
    pub(crate) fn contexts() -> Vec<usize> {
        STATE.with_borrow(|state| state.contexts.clone())
    }

    pub(crate) fn set_contexts(contexts: &[usize]) {
        STATE.with_borrow_mut(|state| state.contexts = contexts.to_vec());
    }

    pub(crate) fn retained() -> i32 {
        STATE.with_borrow(|state| state.retained)
    }

    /// The context that was current in the last allocation.
    pub(crate) fn allocated_in() -> usize {
        STATE.with_borrow(|state| state.allocated_in)
    }

    pub(crate) fn answer(call: &'static str, status: Status) {
        STATE.with_borrow_mut(|state| state.answers.insert(call, status));
    }

    /// The turn of everything enqueued comes.
    pub(crate) fn run_callbacks() {
        let callbacks = STATE.with_borrow_mut(|state| std::mem::take(&mut state.callbacks));
        for (function, word) in callbacks {
            if let Some(function) = function {
                // SAFETY: the function takes any word.
                unsafe { function(ptr::without_provenance_mut(word)) };
            }
        }
    }
}

/// A fake driver that has started, with so many devices.
pub(crate) fn loaded(devices: CUdevice) -> Loaded {
    // SAFETY: each fake has the signature of its name; tests call no others.
    match unsafe { Symbols::resolve(address) } {
        Ok((symbols, missing)) => Loaded {
            symbols,
            missing,
            version: 13_000,
            devices: (0..devices).collect(),
        },
        Err(symbol) => panic!("{symbol} has an address"),
    }
}

fn address(name: &str) -> *const c_void {
    match name {
        "cuCtxGetCurrent" => get_current as *const c_void,
        "cuCtxSetCurrent" => set_current as *const c_void,
        "cuCtxPushCurrent_v2" => push as *const c_void,
        "cuCtxPopCurrent_v2" => pop as *const c_void,
        "cuDevicePrimaryCtxRetain" => retain as *const c_void,
        "cuDevicePrimaryCtxRelease_v2" => release as *const c_void,
        "cuMemAlloc_v2" => alloc as *const c_void,
        "cuStreamQuery" => stream_query as *const c_void,
        "cuStreamIsCapturing" => is_capturing as *const c_void,
        "cuLaunchHostFunc" => launch_host_func as *const c_void,
        "cuGetErrorName" | "cuGetErrorString" => error_words as *const c_void,
        "cuIpcGetEventHandle" => ptr::null(),
        _ => never_called as *const c_void,
    }
}

fn answer_of(call: &'static str) -> Status {
    STATE.with_borrow(|state| state.answers.get(call).copied().unwrap_or(SUCCESS))
}

unsafe extern "C" fn never_called() -> Status {
    999
}

unsafe extern "C" fn get_current(into: *mut CUcontext) -> Status {
    let current = Fake::contexts().last().copied().unwrap_or(0);
    // SAFETY: the caller passes a pointer that is valid for the write.
    unsafe { *into = ptr::without_provenance_mut(current) };
    SUCCESS
}

unsafe extern "C" fn set_current(context: CUcontext) -> Status {
    STATE.with_borrow_mut(|state| {
        state.contexts.pop();
        if !context.is_null() {
            state.contexts.push(context.addr());
        }
    });
    SUCCESS
}

unsafe extern "C" fn push(context: CUcontext) -> Status {
    STATE.with_borrow_mut(|state| state.contexts.push(context.addr()));
    SUCCESS
}

unsafe extern "C" fn pop(into: *mut CUcontext) -> Status {
    let popped = STATE.with_borrow_mut(|state| state.contexts.pop());
    // SAFETY: the caller passes a pointer that is valid for the write.
    unsafe { *into = ptr::without_provenance_mut(popped.unwrap_or(0)) };
    SUCCESS
}

unsafe extern "C" fn retain(into: *mut CUcontext, device: CUdevice) -> Status {
    STATE.with_borrow_mut(|state| state.retained += 1);
    // SAFETY: the caller passes a pointer that is valid for the write.
    unsafe { *into = ptr::without_provenance_mut(primary(device)) };
    SUCCESS
}

unsafe extern "C" fn release(_device: CUdevice) -> Status {
    STATE.with_borrow_mut(|state| state.retained -= 1);
    SUCCESS
}

unsafe extern "C" fn alloc(into: *mut CUdeviceptr, _bytes: usize) -> Status {
    let current = Fake::contexts().last().copied().unwrap_or(0);
    STATE.with_borrow_mut(|state| state.allocated_in = current);
    // SAFETY: the caller passes a pointer that is valid for the write.
    unsafe { *into = 0x5000 };
    answer_of("cuMemAlloc_v2")
}

unsafe extern "C" fn stream_query(_stream: CUstream) -> Status {
    answer_of("cuStreamQuery")
}

unsafe extern "C" fn is_capturing(_stream: CUstream, into: *mut c_uint) -> Status {
    // SAFETY: the caller passes a pointer that is valid for the write.
    unsafe { *into = answer_of("capture status") };
    SUCCESS
}

unsafe extern "C" fn launch_host_func(
    _stream: CUstream,
    function: CUhostFn,
    word: *mut c_void,
) -> Status {
    let status = answer_of("cuLaunchHostFunc");
    if status == SUCCESS {
        STATE.with_borrow_mut(|state| state.callbacks.push((function, word.addr())));
    }
    status
}

unsafe extern "C" fn error_words(_status: Status, into: *mut *const c_char) -> Status {
    // SAFETY: the caller passes a pointer that is valid for the write.
    unsafe { *into = ptr::null() };
    1
}
