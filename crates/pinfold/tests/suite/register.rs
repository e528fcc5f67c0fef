//! Memory of the caller's own, page-locked where it lies.

use crate::common::{Machine, everywhere, options};
use pinfold::buffer::HandOver;
use pinfold::memory::ReasonCode;
use pinfold::transfer::{Engine, Path};
use pinfold::{Error, Memory, MemoryKind, Platform};
use pinfold_hal::{DeviceId, ErrorCode, HostAddr, MemoryOps, RegisterFlags};
use pinfold_hal_sim::{Policy, SimOptions};
use pinfold_model::Profile;
use std::sync::Arc;

#[test]
fn a_vector_is_registered_copied_and_given_back() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let data: Vec<u64> = (0..5000).collect();
        let start = data.as_ptr();
        let buffer = memory.register(data).unwrap();
        assert_eq!(buffer.placement().kind(), MemoryKind::Registered);
        let mut on_device = memory.device(5000).unwrap();
        let mut buffer = stream
            .upload(buffer, &mut on_device)
            .unwrap()
            .wait()
            .unwrap();
        buffer.as_mut_slice().fill(0);
        let buffer = stream.download(&on_device, buffer).unwrap().wait().unwrap();
        let data = buffer.into_inner().unwrap().unwrap();
        assert_eq!(data.as_ptr(), start);
        assert!(data.into_iter().eq(0..5000), "{}", place.name);
    });
}

#[test]
fn a_slice_is_ordinary_again_after_the_scope_even_if_the_handle_was_leaked() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let mut on_device = memory.device::<u32>(10_000).unwrap();
        stream.fill(&mut on_device, 7).unwrap();
        let mut slice = vec![0u32; 10_000];
        memory
            .with_registered(&mut slice[..], |buffer| {
                std::mem::forget(stream.download(&on_device, buffer).unwrap());
            })
            .unwrap();
        assert!(slice.iter().all(|v| *v == 0x0707_0707), "{}", place.name);
        drop(memory.register(slice).unwrap());
    });
}

#[test]
fn a_panic_in_the_scope_leaves_nothing_registered() {
    let machine = Machine::new(options(), Policy::Lazy);
    let memory = Memory::new(&machine.device(0));
    let mut slice = [0u8; 100];
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = memory.with_registered(&mut slice, |_| panic!("the user's own"));
    }));
    assert!(outcome.is_err());
    assert_eq!(machine.sim.live().registered_bytes, 0);
    drop(memory);
    machine.check_clean();
}

#[test]
fn r08_registering_twice_names_the_first_owner_and_leaves_no_error_behind() {
    let machine = Machine::new(options(), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    let mut data = vec![0u8; 8192];
    memory
        .with_registered(&mut data[..], |buffer| {
            let start = buffer.as_slice().as_ptr() as usize;
            // A part of it inside is the same registration once more.
            let calls = machine.sim.live().registered_bytes;
            let inside = memory.register(Overlap { start, len: 10 }).unwrap();
            assert_eq!(machine.sim.live().registered_bytes, calls);
            drop(inside);
            assert_eq!(machine.sim.live().registered_bytes, calls);
            // One that reaches beyond it is not.
            let len = 8192 + 64;
            let refused = memory.register(Overlap { start, len }).unwrap_err();
            let text = refused.error.to_string();
            assert!(
                matches!(*refused.error, Error::AlreadyRegistered { .. }),
                "{text}"
            );
            assert!(text.contains("register.rs"), "{text}");
            let free = format!("free of it: {:#x}..{:#x}", start + 8192, start + len);
            assert!(text.contains(&free), "{text}");
            // The next call is clean.
            drop(memory.register(vec![1u8; 4 << 20]).unwrap());
        })
        .unwrap();
    drop(memory.register(data).unwrap());
}

struct Overlap {
    start: usize,
    len: usize,
}

// SAFETY: for tests in which nobody touches the range by way of it.
unsafe impl pinfold::buffer::HostRange for Overlap {
    type Item = u8;
    const WRITABLE: bool = true;

    fn start(&mut self) -> pinfold_hal::HostAddr {
        pinfold_hal::HostAddr(self.start)
    }

    fn len(&self) -> usize {
        self.len
    }
}

#[test]
fn r09_registering_nothing_is_no_error_and_registers_nothing() {
    let machine = Machine::new(options(), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    let buffer = memory.register(Vec::<u64>::new()).unwrap();
    assert!(buffer.is_empty());
    assert_eq!(machine.sim.live().registered_bytes, 0);
    assert_eq!(buffer.into_inner().unwrap(), Some(Vec::new()));
    memory
        .with_registered::<u8, _>(&mut [], |b| assert!(b.hand_over().is_empty()))
        .unwrap();
}

#[test]
fn a_mapped_file_is_registered_and_uploaded() {
    let name = format!("pinfold-map-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, vec![42u8; 9000]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    everywhere(1, |place| {
        // SAFETY: nobody else knows the file.
        let map = unsafe { memmap2::Mmap::map(&file).unwrap() };
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let buffer = memory.register(map).unwrap();
        let mut on_device = memory.device(9000).unwrap();
        let buffer = stream.upload(buffer, &mut on_device).unwrap();
        let down = stream
            .download(&on_device, memory.download(9000).unwrap())
            .unwrap();
        let right = down.wait().unwrap().iter().all(|v| *v == 42);
        assert!(right, "{}", place.name);
        drop(buffer.wait().unwrap().into_inner().unwrap());
    });
    std::fs::remove_file(path).unwrap();
}

#[test]
fn small_vectors_that_share_a_page_are_registered_side_by_side() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let mut pages = vec![0u32; 3000];
        let (left, right) = pages.split_at_mut(1100);
        memory
            .with_registered(left, |mut left| {
                left.as_mut_slice().fill(3);
                memory
                    .with_registered(right, |mut right| {
                        right.as_mut_slice().fill(5);
                        let mut there = memory.device(3000).unwrap();
                        let left = stream.upload_part(left, 0..1100, &mut there, 0).unwrap();
                        let right = stream
                            .upload_part(right, 0..1900, &mut there, 1100)
                            .unwrap();
                        let down = memory.download(3000).unwrap();
                        let down = stream.download(&there, down).unwrap().wait().unwrap();
                        let wanted = |i: usize| if i < 1100 { 3 } else { 5 };
                        let all_right = down.iter().enumerate().all(|(i, v)| *v == wanted(i));
                        assert!(all_right, "{}", place.name);
                        drop((left, right));
                    })
                    .unwrap();
            })
            .unwrap();
    });
}

#[test]
fn shared_owners_share_one_registration_and_the_last_one_ends_it() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let shared: Arc<[u32]> = (0..5000).collect();
        let first = memory.register(shared.clone()).unwrap();
        let second = memory.register(shared.clone()).unwrap();
        let mut on_device = memory.device(5000).unwrap();
        let flight = stream.upload(first, &mut on_device).unwrap();
        drop(flight.wait().unwrap().into_inner().unwrap());
        // Still page-locked for the other one, and read by everybody.
        let flight = stream.upload(second, &mut on_device).unwrap();
        assert_eq!(shared[4999], 4999);
        let down = memory.download(5000).unwrap();
        let down = stream.download(&on_device, down).unwrap().wait().unwrap();
        assert_eq!(down.as_slice(), &*shared, "{}", place.name);
        let second = flight.wait().unwrap();
        assert!(Arc::ptr_eq(&second.into_inner().unwrap().unwrap(), &shared));
        // Ordinary memory now: it can be registered as a whole, or for writing.
        drop(memory.register(Vec::from(&*shared)).unwrap());
    });
}

#[test]
fn text_and_slices_that_live_for_ever_are_registered() {
    let machine = Machine::new(options(), Policy::Lazy);
    let memory = Memory::new(&machine.device(0));
    let stream = machine.device(0).stream().unwrap();
    let text: &'static str = "page-locked for a while";
    let buffer = memory.register(text).unwrap();
    let mut there = memory.device::<u8>(text.len()).unwrap();
    drop(stream.upload(buffer, &mut there).unwrap());
    let numbers: &'static [u8] = text.as_bytes();
    let buffer = memory.register(&numbers[2..8]).unwrap();
    assert_eq!(buffer.as_slice(), &numbers[2..8]);
    drop((buffer, there, stream, memory));
    machine.check_clean();
}

/// Another platform over the same machine, as other code of the process would have it.
fn other_code(machine: &Machine) -> Platform {
    let other = Platform::with_driver(machine.sim.clone());
    drop(other.device(0).unwrap().stream().unwrap());
    other
}

#[test]
fn memory_that_other_code_page_locked_is_borrowed_and_never_unlocked() {
    let machine = Machine::new(options(), Policy::Lazy);
    let elsewhere = Memory::new(&other_code(&machine).device(0).unwrap());
    let memory = Memory::new(&machine.device(0));
    let stream = machine.device(0).stream().unwrap();
    let shared: Arc<[u8]> = vec![7; 9000].into();
    let theirs = elsewhere.register(shared.clone()).unwrap();
    let ours = memory.register(shared.clone()).unwrap();
    assert_eq!(ours.placement().reason().code(), ReasonCode::Borrowed);
    let mut there = memory.device(9000).unwrap();
    let ours = stream.upload(ours, &mut there).unwrap().wait().unwrap();
    assert_eq!(memory.unpin_idle(std::time::Duration::ZERO).blocks, 0);
    drop(ours);
    assert_eq!(machine.sim.live().registered_bytes, 9000);
    // What is page-locked in part only is nobody's to use.
    let start = shared.as_ptr() as usize;
    let refused = memory.register(Overlap { start, len: 9001 }).unwrap_err();
    let text = refused.error.to_string();
    assert!(text.contains("other code"), "{text}");
    drop(memory.register(vec![0u8; 100]).unwrap());
    drop((theirs, there, stream, memory, elsewhere));
    machine.check_clean();
}

#[test]
fn r10_unregistering_what_is_inside_or_unknown_and_overlaps_are_three_errors() {
    let machine = Machine::new(options(), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    let buffer = memory.register(vec![0u8; 8192]).unwrap();
    let start = buffer.as_slice().as_ptr() as usize;
    let unregister = |addr| {
        // SAFETY: nothing is in flight, and the call is refused.
        let outcome = unsafe { machine.sim.host_unregister(DeviceId(0), HostAddr(addr)) };
        outcome.unwrap_err().code
    };
    assert_eq!(unregister(start + 64), ErrorCode::InvalidValue);
    let unknown = [0u8; 64];
    let code = unregister(unknown.as_ptr() as usize);
    assert_eq!(code, ErrorCode::HostMemoryNotRegistered);
    let (addr, flags) = (HostAddr(start), RegisterFlags::default());
    // SAFETY: the range is valid, and the call is refused.
    let twice = unsafe { machine.sim.host_register(DeviceId(0), addr, 10, flags) };
    let code = twice.unwrap_err().code;
    assert_eq!(code, ErrorCode::HostMemoryAlreadyRegistered);
    let refused = memory.register(Overlap { start, len: 8193 }).unwrap_err();
    assert!(matches!(*refused.error, Error::AlreadyRegistered { .. }));
    // Nothing has changed.
    assert_eq!(machine.sim.live().registered_bytes, 8192);
    assert_eq!(buffer.into_inner().unwrap().unwrap().len(), 8192);
    drop(memory);
    machine.check_clean();
}

#[test]
fn r27_memory_that_may_be_read_only_is_refused_where_no_device_can_lock_it() {
    let mut profile = Profile::h200();
    profile.devices[0].capabilities.host_register_read_only = false;
    let machine = Machine::new(SimOptions::new(profile), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    let text: &'static str = "read only";
    let refused = memory.register(text).unwrap_err();
    assert!(matches!(*refused.error, Error::ReadOnly { .. }));
    assert!(refused.error.to_string().contains("map_copy"));
    assert_eq!(refused.buffer, text);
    // The heap is not, though nobody writes it.
    drop(memory.register(Arc::<[u8]>::from(text.as_bytes())).unwrap());
    drop(memory);
    machine.check_clean();
}

#[test]
fn r07_a_slice_that_leaves_a_registration_is_copied_in_parts() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let all: &'static [u32] = Box::leak((0..3000).collect());
        let middle = memory.register(&all[1000..2000]).unwrap();
        let engine = Engine::new(&memory, &device).unwrap();
        let mut there = memory.device(3000).unwrap();
        let moved = engine.upload(all, &mut there).unwrap();
        assert_eq!(moved.path, Path::Driver);
        let mut tail = memory.device(1500).unwrap();
        engine.upload(&all[1500..], &mut tail).unwrap();
        let mut back = vec![0; 3000];
        engine.download(&there, &mut back).unwrap();
        assert_eq!(back, all, "{}", place.name);
        engine.download(&tail, &mut back[..1500]).unwrap();
        assert_eq!(back[..1500], all[1500..], "{}", place.name);
        drop(middle);
    });
}
