//! From a request to work that can be enqueued: its addresses are resolved, and its cost is found.

use crate::address::{Cover, DeviceSpan, HOST_SPACE_BYTES, HostRange};
use crate::error::invalid;
use crate::operation::{HostSource, Kernel, KernelArg, KernelRequest, Prepared, Request, Work};
use crate::raw::HostSpan;
use crate::schedule::{Resource, ps};
use crate::world::World;
use pinfold_hal::{
    Access, DeviceAddr, DeviceId, DriverError, ErrorCode, HostAddr, LaunchArg, Pattern, Result,
};
use pinfold_model::{self as model, Direction, MemoryKind, Profile, cost};

/// Pageable copies to the device of up to this many bytes are staged inside the call, which returns
/// at once, as the CUDA driver's synchronisation rules say for 64 KiB.
const STAGED_BYTES_MAX: usize = 64 << 10;

fn host_use(span: HostSpan) -> (u64, u64) {
    (span.addr() as u64, span.end() as u64)
}

fn device_use(span: DeviceSpan) -> (u64, u64) {
    (span.addr(), span.end())
}

impl World {
    /// Resolves the addresses of work, and finds what it costs.
    pub(crate) fn prepare(
        &self,
        call: &'static str,
        device: DeviceId,
        request: &Request,
    ) -> Result<Prepared> {
        match request {
            Request::ToDevice { to, from } => {
                let to = self.device_span(call, *to, from.bytes() as u64)?;
                self.prepare_to_device(call, to, *from)
            }
            Request::ToHost { to, from } => {
                let from = self.device_span(call, *from, to.bytes() as u64)?;
                self.prepare_to_host(call, *to, from)
            }
            Request::OnDevice { to, from, bytes } => {
                self.prepare_on_device(call, *to, *from, *bytes)
            }
            Request::Fill { to, byte, bytes } => {
                let to = self.device_span(call, *to, *bytes)?;
                let rate = self.profile().kernel.device_memory_bytes_per_s.value;
                Ok(Prepared {
                    work: Work::Fill { to, byte: *byte },
                    uses: vec![device_use(to)],
                    resource: Resource::OnDevice,
                    start_ps: ps(self.profile().calls.copy_to_host_start_ns.value),
                    busy_ps: ps(*bytes as f64 / rate * 1e9),
                    ..Prepared::mark()
                })
            }
            Request::Kernel(kernel) => self.prepare_kernel(call, device, kernel),
        }
    }

    fn device_span(&self, call: &'static str, addr: DeviceAddr, bytes: u64) -> Result<DeviceSpan> {
        match self.blocks.containing(addr.0, bytes) {
            Some((span, _)) => Ok(span),
            None => Err(invalid(
                call,
                format!("{addr:?} with {bytes} bytes is not in one allocation of device memory"),
            )),
        }
    }

    fn host_kind(&self, call: &'static str, span: HostSpan) -> Result<MemoryKind> {
        match self.host.cover(span.addr(), span.bytes()) {
            Cover::Pageable => Ok(MemoryKind::Pageable),
            Cover::PageLocked {
                write_combined: true,
                ..
            } => Ok(MemoryKind::WriteCombined),
            Cover::PageLocked { .. } => Ok(MemoryKind::PageLocked),
            Cover::Leaves(what) => Err(invalid(call, what)),
        }
    }

    fn prepare_to_device(
        &self,
        call: &'static str,
        to: DeviceSpan,
        from: HostSpan,
    ) -> Result<Prepared> {
        let kind = self.host_kind(call, from)?;
        let pageable = kind == MemoryKind::Pageable;
        let staged = pageable && from.bytes() <= STAGED_BYTES_MAX;
        let source = if staged {
            let mut bytes = vec![0; from.bytes()];
            from.load(&mut bytes);
            HostSource::Staged(bytes)
        } else {
            HostSource::Span(from)
        };
        let (way, bytes) = (Direction::ToDevice, from.bytes() as u64);
        Ok(Prepared {
            work: Work::ToDevice { to, from: source },
            uses: vec![host_use(from), device_use(to)],
            resource: Resource::ToDevice,
            start_ps: ps(cost::copy_start_ns(self.profile(), way, kind, bytes)),
            busy_ps: ps(cost::copy_engine_ns(self.profile(), way, kind, bytes)),
            blocks_host: pageable && !staged,
            ..Prepared::mark()
        })
    }

    fn prepare_to_host(
        &self,
        call: &'static str,
        to: HostSpan,
        from: DeviceSpan,
    ) -> Result<Prepared> {
        let kind = self.host_kind(call, to)?;
        if let Cover::PageLocked {
            read_only: true, ..
        } = self.host.cover(to.addr(), to.bytes())
        {
            return Err(invalid(call, "the target is registered for reading only"));
        }
        let (way, bytes) = (Direction::ToHost, to.bytes() as u64);
        let pageable = kind == MemoryKind::Pageable;
        Ok(Prepared {
            work: Work::ToHost { to, from },
            uses: vec![host_use(to), device_use(from)],
            resource: Resource::ToHost,
            start_ps: ps(cost::copy_start_ns(self.profile(), way, kind, bytes)),
            busy_ps: ps(cost::copy_engine_ns(self.profile(), way, kind, bytes)),
            blocks_host: pageable,
            poisons: (!pageable && self.options.poisons()).then_some(to),
            ..Prepared::mark()
        })
    }

    fn prepare_on_device(
        &self,
        call: &'static str,
        to: DeviceAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<Prepared> {
        let (to, from) = (
            self.device_span(call, to, bytes)?,
            self.device_span(call, from, bytes)?,
        );
        let home = |span: DeviceSpan| self.blocks.get(span.block).map(|block| block.device);
        let profile = self.profile();
        let busy_ns = if home(to) == home(from) {
            cost::copy_engine_ns(profile, Direction::ToDevice, MemoryKind::Device, bytes)
        } else {
            bytes as f64 / profile.link.peer_bytes_per_s.value * 1e9
        };
        Ok(Prepared {
            work: Work::OnDevice { to, from },
            uses: vec![device_use(to), device_use(from)],
            resource: Resource::OnDevice,
            start_ps: ps(profile.calls.copy_to_host_start_ns.value),
            busy_ps: ps(busy_ns),
            ..Prepared::mark()
        })
    }

    fn prepare_kernel(
        &self,
        call: &'static str,
        device: DeviceId,
        request: &KernelRequest,
    ) -> Result<Prepared> {
        let calls = &self.profile().calls;
        let (mut args, mut uses) = (Vec::new(), Vec::new());
        let mut written = Vec::new();
        let mut time = KernelTime::default();
        let mut fault = None;
        for (n, arg) in request.args.iter().enumerate() {
            let memory = match arg {
                LaunchArg::Scalar(scalar) => {
                    args.push(KernelArg::Scalar(*scalar));
                    continue;
                }
                LaunchArg::Memory(memory) => memory,
            };
            match self.kernel_memory(device, memory.addr, memory.bytes, memory.access) {
                Ok(arg) => {
                    time.add(
                        self.profile(),
                        &arg,
                        memory.access,
                        memory.pattern,
                        memory.bytes,
                    );
                    let range = arg.addresses();
                    uses.push(range);
                    written.push((range, memory.access.writes(), n));
                    args.push(arg);
                }
                Err(what) => {
                    fault.get_or_insert(format!(
                        "argument {n} of kernel {}: {what}",
                        request.twin.name
                    ));
                }
            }
        }
        check_overlaps(call, &written)?;
        let kernel = Kernel {
            twin: request.twin.clone(),
            grid: request.grid,
            block: request.block,
            args,
        };
        Ok(Prepared {
            work: fault.map_or(Work::Kernel(kernel), Work::Fault),
            uses,
            resource: Resource::Compute,
            module: Some(request.module),
            start_ps: ps(calls.launch_start_ns.value),
            busy_ps: ps(calls.kernel_floor_ns.value + time.busy_ns()),
            ..Prepared::mark()
        })
    }

    /// Device memory of this device, or host memory that it can reach.
    fn kernel_memory(
        &self,
        device: DeviceId,
        addr: DeviceAddr,
        bytes: u64,
        access: Access,
    ) -> std::result::Result<KernelArg, String> {
        if bytes == 0 {
            let write = access.writes();
            return Ok(KernelArg::Empty { write });
        }
        if let Some((span, block)) = self.blocks.containing(addr.0, bytes) {
            if block.device != device {
                return Err(format!("{addr:?} is memory of device {}", block.device));
            }
            let write = access.writes();
            return Ok(KernelArg::Device { span, write });
        }
        let outside =
            || format!("{addr:?} with {bytes} bytes is memory that the kernel cannot reach");
        let (host, range) = self.host_behind(addr).ok_or_else(outside)?;
        if !self.reaches(device, range) {
            return Err(format!("{addr:?} is not mapped for device {device}"));
        }
        let bytes = usize::try_from(bytes).map_err(|e| e.to_string())?;
        let offset = range.device_offset;
        let reaches = |r: &HostRange| self.reaches(device, r) && r.device_offset == offset;
        match self.host.cover_touching(host.0, bytes, reaches) {
            Cover::PageLocked {
                read_only: true, ..
            } if access.writes() => Err(format!("{addr:?} is registered for reading only")),
            Cover::PageLocked { span, .. } => Ok(KernelArg::Host { span, access }),
            Cover::Leaves(what) => Err(what),
            Cover::Pageable => Err(outside()),
        }
    }

    /// The host address behind a device address, and what it is in, where it is one of page-locked
    /// memory.
    fn host_behind(&self, addr: DeviceAddr) -> Option<(HostAddr, &HostRange)> {
        let host = addr.0 % HOST_SPACE_BYTES;
        let range = self.host.containing(usize::try_from(host).ok()?)?;
        let is_its = host + range.device_offset == addr.0;
        is_its.then_some((HostAddr(host as usize), range))
    }
}

impl KernelArg {
    fn addresses(&self) -> (u64, u64) {
        match self {
            KernelArg::Device { span, .. } => device_use(*span),
            KernelArg::Host { span, .. } => host_use(*span),
            KernelArg::Scalar(_) | KernelArg::Empty { .. } => (0, 0),
        }
    }
}

/// Refuses a written range that overlaps another argument's: a twin could not work on both.
fn check_overlaps(call: &'static str, ranges: &[((u64, u64), bool, usize)]) -> Result<()> {
    for (at, &(a, a_written, n)) in ranges.iter().enumerate() {
        for &(b, b_written, m) in &ranges[at + 1..] {
            if (a_written || b_written) && a.0 < b.1 && b.0 < a.1 {
                return Err(DriverError::with_detail(
                    ErrorCode::InvalidValue,
                    call,
                    format!("arguments {n} and {m} overlap and one of them is written"),
                ));
            }
        }
    }
    Ok(())
}

/// What a kernel spends on memory; the parts go on side by side. Several arguments in host memory
/// share the link, and their first words are under way together: the latency counts once.
#[derive(Default)]
struct KernelTime {
    device_ns: f64,
    host_read_ns: f64,
    host_write_ns: f64,
    host_latency_ns: f64,
}

impl KernelTime {
    fn add(
        &mut self,
        profile: &Profile,
        arg: &KernelArg,
        access: Access,
        pattern: Pattern,
        bytes: u64,
    ) {
        let pattern = model_pattern(pattern);
        let latency_ns = profile.kernel.zero_copy_latency_ns.value;
        let host = |way| {
            let alone_ns = cost::zero_copy_ns(profile, way, pattern, bytes, bytes);
            (alone_ns - latency_ns).max(0.0)
        };
        match arg {
            KernelArg::Scalar(_) | KernelArg::Empty { .. } => {}
            KernelArg::Device { .. } => {
                let passes = u8::from(access.reads()) + u8::from(access.writes());
                let once_ns = cost::kernel_device_memory_ns(profile, pattern, bytes);
                self.device_ns += f64::from(passes) * once_ns;
            }
            KernelArg::Host { .. } => {
                self.host_latency_ns = latency_ns;
                if access.reads() {
                    self.host_read_ns += host(model::Access::Read);
                }
                if access.writes() {
                    self.host_write_ns += host(model::Access::Write);
                }
            }
        }
    }

    fn busy_ns(&self) -> f64 {
        let host_ns = self.host_read_ns.max(self.host_write_ns);
        self.device_ns.max(self.host_latency_ns + host_ns)
    }
}

fn model_pattern(pattern: Pattern) -> model::Pattern {
    match pattern {
        Pattern::Sequential { passes } => model::Pattern::Sequential { passes },
        Pattern::Strided {
            element_bytes,
            stride_bytes,
        } => model::Pattern::Strided {
            element_bytes,
            stride_bytes,
        },
        Pattern::Random { row_bytes, count } => model::Pattern::Random { row_bytes, count },
        Pattern::Windowed {
            row_bytes,
            count,
            window_bytes,
        } => model::Pattern::Windowed {
            row_bytes,
            count,
            window_bytes,
        },
        Pattern::Dependent { count } => model::Pattern::Dependent { count },
    }
}
