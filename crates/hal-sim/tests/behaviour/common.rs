//! What the tests share: a simulation with one open device and one stream, kernels with twins, and
//! the unsafe calls behind safe names.
//!
//! The tests break the rules on purpose, in one thread, with memory that outlives the simulation or
//! belongs to it; a broken rule then gives wrong bytes, never undefined behaviour.

use pinfold_hal::{
    Access, BackendOps, DeviceAddr, DeviceId, EventFlags, EventId, EventOps, FunctionId, HostAddr,
    HostAllocFlags, Launch, LaunchArg, MemoryArg, MemoryOps, ModuleImage, ModuleOps, Pattern,
    RegisterFlags, Result, StreamId, StreamKind, StreamOps, Twin,
};
use pinfold_hal_sim::{Policy, Sim, SimOptions};
use pinfold_model::Profile;

/// The only device of most tests.
pub(crate) const DEVICE: DeviceId = DeviceId(0);

/// Three policies that behave as differently as they can.
pub(crate) const POLICIES: [Policy; 3] = [Policy::Eager, Policy::Lazy, Policy::Seeded(1)];

/// A simulation with an open device and a stream.
pub(crate) struct Bench {
    pub(crate) sim: Sim,
    pub(crate) stream: StreamId,
}

pub(crate) fn bench(policy: Policy) -> Bench {
    bench_with(SimOptions::new(Profile::h200()).policy(policy))
}

pub(crate) fn bench_with(options: SimOptions) -> Bench {
    let sim = Sim::new(options);
    sim.open(DEVICE).unwrap();
    let stream = sim.stream_create(DEVICE, StreamKind::NonBlocking).unwrap();
    Bench { sim, stream }
}

/// `next`: every byte of the second argument becomes the first one's, plus one.
/// `panics`: does. `wrong`: asks for more arguments than it gets.
pub(crate) fn kernels() -> ModuleImage {
    let next = Twin::new("next", |call| {
        let [from, to] = call.args()?;
        for (to, from) in to.write::<u8>()?.iter_mut().zip(from.read::<u8>()?) {
            *to = from.wrapping_add(1);
        }
        Ok(())
    });
    let panics = Twin::new("panics", |_| panic!("on purpose"));
    let wrong = Twin::new("wrong", |call| call.args::<9>().map(|_| ()));
    let ptx = ".version 7.0\n.target sm_75\n.visible .entry next()\n.entry panics()\n\
               .entry wrong()\n.entry twinless()\n";
    ModuleImage {
        name: "tests".into(),
        ptx: ptx.into(),
        twins: vec![next, panics, wrong],
    }
}

pub(crate) fn memory(addr: DeviceAddr, bytes: u64, access: Access) -> LaunchArg {
    LaunchArg::Memory(MemoryArg {
        addr,
        bytes,
        access,
        pattern: Pattern::ONCE,
    })
}

impl Bench {
    pub(crate) fn new_stream(&self, kind: StreamKind) -> StreamId {
        self.sim.stream_create(DEVICE, kind).unwrap()
    }

    /// Page-locked memory full of zeros.
    pub(crate) fn host(&self, bytes: u64) -> HostAddr {
        let addr = self.fresh_host(bytes);
        write(addr, &vec![0; bytes as usize]);
        addr
    }

    /// Page-locked memory as the simulation gives it.
    pub(crate) fn fresh_host(&self, bytes: u64) -> HostAddr {
        self.sim
            .host_alloc(DEVICE, bytes, HostAllocFlags::default())
            .unwrap()
    }

    pub(crate) fn device(&self, bytes: u64) -> DeviceAddr {
        self.sim.device_alloc(DEVICE, bytes).unwrap()
    }

    pub(crate) fn event(&self) -> EventId {
        self.sim
            .event_create(DEVICE, EventFlags::default())
            .unwrap()
    }

    pub(crate) fn mapped(&self, host: HostAddr) -> DeviceAddr {
        self.sim.device_address(DEVICE, host).unwrap()
    }

    pub(crate) fn function(&self, name: &str) -> FunctionId {
        let module = self.sim.module_load(DEVICE, &kernels()).unwrap();
        self.sim.function(module, name).unwrap()
    }

    pub(crate) fn sync(&self) {
        self.sim.stream_synchronize(self.stream).unwrap();
    }

    pub(crate) fn up(&self, to: DeviceAddr, from: HostAddr, bytes: u64) {
        self.try_up(self.stream, to, from, bytes).unwrap();
    }

    pub(crate) fn try_up(
        &self,
        s: StreamId,
        to: DeviceAddr,
        from: HostAddr,
        bytes: u64,
    ) -> Result<()> {
        // SAFETY: see the top of the file.
        unsafe { self.sim.copy_to_device(s, to, from, bytes) }
    }

    pub(crate) fn down(&self, to: HostAddr, from: DeviceAddr, bytes: u64) {
        self.try_down(self.stream, to, from, bytes).unwrap();
    }

    pub(crate) fn try_down(
        &self,
        s: StreamId,
        to: HostAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<()> {
        // SAFETY: see the top of the file.
        unsafe { self.sim.copy_to_host(s, to, from, bytes) }
    }

    pub(crate) fn across(
        &self,
        s: StreamId,
        to: DeviceAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<()> {
        // SAFETY: see the top of the file.
        unsafe { self.sim.copy_on_device(s, to, from, bytes) }
    }

    pub(crate) fn fill(&self, s: StreamId, to: DeviceAddr, byte: u8, bytes: u64) -> Result<()> {
        // SAFETY: see the top of the file.
        unsafe { self.sim.fill(s, to, byte, bytes) }
    }

    pub(crate) fn launch(
        &self,
        s: StreamId,
        function: FunctionId,
        args: &[LaunchArg],
    ) -> Result<()> {
        self.launch_shaped(s, function, [1, 1, 1], [32, 1, 1], args)
    }

    pub(crate) fn launch_shaped(
        &self,
        s: StreamId,
        function: FunctionId,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[LaunchArg],
    ) -> Result<()> {
        let launch = Launch {
            grid,
            block,
            shared_bytes: 0,
            args,
        };
        // SAFETY: see the top of the file.
        unsafe { self.sim.launch(s, function, &launch) }
    }

    /// Launches `next` from one range to another.
    pub(crate) fn next(&self, function: FunctionId, from: DeviceAddr, to: DeviceAddr, bytes: u64) {
        let args = [
            memory(from, bytes, Access::Read),
            memory(to, bytes, Access::Write),
        ];
        self.launch(self.stream, function, &args).unwrap();
    }

    pub(crate) fn free_host(&self, addr: HostAddr) -> Result<()> {
        // SAFETY: see the top of the file.
        unsafe { self.sim.host_free(DEVICE, addr) }
    }

    pub(crate) fn free_device(&self, addr: DeviceAddr) -> Result<()> {
        // SAFETY: see the top of the file.
        unsafe { self.sim.device_free(DEVICE, addr) }
    }

    pub(crate) fn register(&self, addr: HostAddr, bytes: u64) -> Result<()> {
        // SAFETY: see the top of the file.
        unsafe {
            self.sim
                .host_register(DEVICE, addr, bytes, RegisterFlags::default())
        }
    }

    pub(crate) fn unregister(&self, addr: HostAddr) -> Result<()> {
        // SAFETY: see the top of the file.
        unsafe { self.sim.host_unregister(DEVICE, addr) }
    }

    pub(crate) fn destroy_event(&self, event: EventId) -> Result<()> {
        // SAFETY: see the top of the file.
        unsafe { self.sim.event_destroy(event) }
    }

    pub(crate) fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        // SAFETY: see the top of the file.
        unsafe { self.sim.stream_destroy(stream) }
    }
}

/// Gives up one opening.
pub(crate) fn close(sim: &Sim, device: DeviceId) -> Result<()> {
    // SAFETY: see the top of the file.
    unsafe { sim.close(device) }
}

/// Writes page-locked memory of the simulation as the host does.
pub(crate) fn write(addr: HostAddr, bytes: &[u8]) {
    // SAFETY: the tests only write inside live allocations, in the one thread that there is.
    unsafe {
        let to = std::ptr::with_exposed_provenance_mut::<u8>(addr.0);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
    }
}

/// Reads page-locked memory of the simulation as the host does.
pub(crate) fn read(addr: HostAddr, bytes: usize) -> Vec<u8> {
    // SAFETY: the tests only read inside live allocations, in the one thread that there is.
    unsafe {
        let from = std::ptr::with_exposed_provenance::<u8>(addr.0);
        std::slice::from_raw_parts(from, bytes).to_vec()
    }
}

/// The address of ordinary memory.
pub(crate) fn address_of(bytes: &mut [u8]) -> HostAddr {
    HostAddr(bytes.as_mut_ptr().expose_provenance())
}
