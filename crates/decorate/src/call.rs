//! The operations of a driver that can fail, by name.

use std::fmt;
use std::str::FromStr;

macro_rules! calls {
    ($($(#[$doc:meta])* $variant:ident = $name:literal $entry_point:literal $class:ident;)*) => {
        /// An operation of [`Driver`](pinfold_hal::Driver) that can fail. What cannot (`info`,
        /// `now_ns`, `host_work`, `pause`, `hazards`, `default_stream`) is no call.
        ///
        /// A refused call has not happened: the inner driver never heard of it. Each variant says
        /// what that leaves behind.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Call {
            $($(#[$doc])* $variant,)*
        }

        impl Call {
            /// All calls, in the order of the operation groups.
            pub const ALL: &[Call] = &[$(Call::$variant,)*];

            /// The operation's name with hyphens, such as `host-alloc`.
            pub const fn name(self) -> &'static str {
                match self { $(Call::$variant => $name,)* }
            }

            /// The entry point of CUDA that errors name, such as `cuMemHostAlloc`.
            pub const fn entry_point(self) -> &'static str {
                match self { $(Call::$variant => $entry_point,)* }
            }

            /// True for calls that only give something back. Programs make them while they clean
            /// up, where nobody is left to act on a failure.
            pub const fn is_release(self) -> bool {
                matches!(match self { $(Call::$variant => Class::$class,)* }, Class::Release)
            }
        }
    };
}

/// What a call is to a program.
enum Class {
    Work,
    Release,
}

calls! {
    /// Refused: nothing is known about the machine.
    DeviceCount = "device-count" "cuDeviceGetCount" Work;
    /// Refused: nothing is known about the device.
    DeviceInfo = "device-info" "cuDeviceGetAttribute" Work;
    /// Refused: the device is as open as before, and no `close` is owed.
    Open = "open" "cuDevicePrimaryCtxRetain" Work;
    /// Refused: the device stays open.
    Close = "close" "cuDevicePrimaryCtxRelease" Release;
    /// Refused: nothing is known about the device's memory.
    DeviceMemory = "device-memory" "cuMemGetInfo" Work;
    /// Refused: nothing was allocated.
    HostAlloc = "host-alloc" "cuMemHostAlloc" Work;
    /// Refused: the memory stays allocated.
    HostFree = "host-free" "cuMemFreeHost" Release;
    /// Refused: nothing was page-locked.
    HostRegister = "host-register" "cuMemHostRegister" Work;
    /// Refused: the memory stays page-locked, so it must not be unmapped.
    HostUnregister = "host-unregister" "cuMemHostUnregister" Release;
    /// Refused: no address is known, and none changed.
    DeviceAddress = "device-address" "cuMemHostGetDevicePointer" Work;
    /// Refused: nothing was allocated.
    DeviceAlloc = "device-alloc" "cuMemAlloc" Work;
    /// Refused: the memory stays allocated.
    DeviceFree = "device-free" "cuMemFree" Release;
    /// Refused: there is no stream.
    StreamCreate = "stream-create" "cuStreamCreate" Work;
    /// Refused: the other code's stream is untouched.
    StreamAdopt = "stream-adopt" "cuStreamGetCtx" Work;
    /// Refused: the stream stays, with its work.
    StreamDestroy = "stream-destroy" "cuStreamDestroy" Release;
    /// Refused: nothing is known about the stream's work.
    StreamQuery = "stream-query" "cuStreamQuery" Work;
    /// Refused: nothing was waited for, and the work may still be running.
    StreamSynchronize = "stream-synchronize" "cuStreamSynchronize" Work;
    /// Refused: nothing was waited for, and the work may still be running.
    DeviceSynchronize = "device-synchronize" "cuCtxSynchronize" Work;
    /// Refused: nothing was enqueued.
    CopyToDevice = "copy-to-device" "cuMemcpyHtoDAsync" Work;
    /// Refused: nothing was enqueued.
    CopyToHost = "copy-to-host" "cuMemcpyDtoHAsync" Work;
    /// Refused: nothing was enqueued.
    CopyOnDevice = "copy-on-device" "cuMemcpyDtoDAsync" Work;
    /// Refused: nothing was enqueued.
    Fill = "fill" "cuMemsetD8Async" Work;
    /// Refused: nothing was enqueued; the callback is dropped without having run.
    HostCallback = "host-callback" "cuLaunchHostFunc" Work;
    /// Refused: there is no event.
    EventCreate = "event-create" "cuEventCreate" Work;
    /// Refused: the event stays.
    EventDestroy = "event-destroy" "cuEventDestroy" Release;
    /// Refused: the event's mark is where it was.
    EventRecord = "event-record" "cuEventRecord" Work;
    /// Refused: nothing is known about the work before the mark.
    EventQuery = "event-query" "cuEventQuery" Work;
    /// Refused: nothing was waited for, and the work may still be running.
    EventSynchronize = "event-synchronize" "cuEventSynchronize" Work;
    /// Refused: later work of the stream does not wait for the mark.
    StreamWaitEvent = "stream-wait-event" "cuStreamWaitEvent" Work;
    /// Refused: the time stays unknown.
    EventElapsedNs = "event-elapsed-ns" "cuEventElapsedTime" Work;
    /// Refused: there is no handle.
    EventExport = "event-export" "cuIpcGetEventHandle" Work;
    /// Refused: nothing was opened.
    EventImport = "event-import" "cuIpcOpenEventHandle" Work;
    /// Refused: nothing was loaded.
    ModuleLoad = "module-load" "cuModuleLoadDataEx" Work;
    /// Refused: the module stays loaded.
    ModuleUnload = "module-unload" "cuModuleUnload" Release;
    /// Refused: the kernel was not looked up.
    Function = "function" "cuModuleGetFunction" Work;
    /// Refused: nothing was enqueued.
    Launch = "launch" "cuLaunchKernel" Work;
    /// Refused: work of the stream runs as usual.
    CaptureBegin = "capture-begin" "cuStreamBeginCapture_v2" Work;
    /// Refused: the stream is still being captured.
    CaptureEnd = "capture-end" "cuStreamEndCapture" Work;
    /// Refused: nothing is known about a capture, and none was touched.
    CaptureStatus = "capture-status" "cuStreamIsCapturing" Work;
    /// Refused: there is no executable graph; the graph stays.
    GraphInstantiate = "graph-instantiate" "cuGraphInstantiateWithFlags" Work;
    /// Refused: nothing was enqueued.
    GraphLaunch = "graph-launch" "cuGraphLaunch" Work;
    /// Refused: the graph stays.
    GraphDestroy = "graph-destroy" "cuGraphDestroy" Release;
    /// Refused: the executable graph stays.
    GraphExecDestroy = "graph-exec-destroy" "cuGraphExecDestroy" Release;
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no driver call that can fail; they are named like `host-alloc`")]
pub struct ParseCallError(String);

impl FromStr for Call {
    type Err = ParseCallError;

    fn from_str(text: &str) -> Result<Self, ParseCallError> {
        let found = Call::ALL.iter().find(|call| call.name() == text);
        found.copied().ok_or_else(|| ParseCallError(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_survive_text() {
        for call in Call::ALL {
            assert_eq!(call.to_string().parse(), Ok(*call));
        }
        for text in ["", "Host-Alloc", "pause", "now-ns"] {
            let error = text.parse::<Call>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn calls_are_listed_in_the_order_of_their_numbers() {
        let places = Call::ALL.iter().map(|call| *call as usize);
        assert!(places.eq(0..Call::ALL.len()));
    }

    #[test]
    fn what_gives_back_is_told_from_what_works() {
        let released: Vec<_> = Call::ALL.iter().filter(|c| c.is_release()).collect();
        let names: Vec<_> = released.iter().map(|c| c.name()).collect();
        assert_eq!(
            names,
            [
                "close",
                "host-free",
                "host-unregister",
                "device-free",
                "stream-destroy",
                "event-destroy",
                "module-unload",
                "graph-destroy",
                "graph-exec-destroy",
            ]
        );
    }
}
