//! Memory of the caller's own, page-locked where it lies.

use crate::common::{Machine, everywhere, options};
use pinfold::buffer::HandOver;
use pinfold::{Error, Memory, MemoryKind};
use pinfold_hal_sim::Policy;

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
            // The same bytes once more, by another owner.
            let other = Overlap { start, len: 10 };
            let refused = memory.register(other).unwrap_err();
            let text = refused.error.to_string();
            assert!(
                matches!(*refused.error, Error::AlreadyRegistered { .. }),
                "{text}"
            );
            assert!(text.contains("register.rs"), "{text}");
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

// SAFETY: for a test that expects to be refused: the range is never touched.
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
