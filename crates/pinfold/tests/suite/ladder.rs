//! The fallback ladder: every step down is visible, and `strict` turns it off.

use crate::common::{Machine, options};
use pinfold::memory::ReasonCode;
use pinfold::{Error, Memory, MemoryKind};
use pinfold_hal_sim::Policy;

#[test]
fn write_combined_steps_down_to_page_locked_and_says_so() {
    let machine = Machine::new(options().write_combined_limit(4 << 20), Policy::Eager);
    let memory = Memory::new(&machine.device(0)).of_kind(MemoryKind::WriteCombined);
    assert_eq!(
        memory.upload::<u8>(1 << 20).unwrap().placement().ladder(),
        []
    );
    let buffer = memory.upload::<u8>((4 << 20) + 1).unwrap();
    let placement = buffer.placement();
    assert_eq!(placement.kind(), MemoryKind::PageLocked);
    assert_eq!(placement.reason().code(), ReasonCode::Asked);
    assert_eq!(placement.ladder().len(), 1);
    assert_eq!(placement.ladder()[0].tried, MemoryKind::WriteCombined);
    assert!(placement.to_string().contains("ladder.rs"), "{placement}");
    assert_eq!(memory.stats().ladder_steps, 1);
}

#[test]
fn page_locked_steps_down_to_pageable_which_still_works() {
    let machine = Machine::new(options().pin_limit(Some(16 << 20)), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let n = 24 << 20;
    let mut up = memory.upload::<u8>(n).unwrap();
    assert_eq!(up.placement().kind(), MemoryKind::Pageable);
    let tried: Vec<_> = up.placement().ladder().iter().map(|s| s.tried).collect();
    assert_eq!(tried, [MemoryKind::PageLocked]);
    // What was registered on the way down was unregistered again.
    assert_eq!(machine.sim.live().registered_bytes, 0);
    up.write_each(|i| i as u8);
    let mut on_device = memory.device(n).unwrap();
    drop(stream.upload(up, &mut on_device).unwrap());
    let down = stream
        .download(&on_device, memory.download(n).unwrap())
        .unwrap()
        .wait()
        .unwrap();
    assert!(down.iter().enumerate().all(|(i, v)| *v == i as u8));
}

#[test]
fn strict_fails_and_names_host_memory_the_limit_and_the_site() {
    let machine = Machine::new(options().pin_limit(Some(4 << 20)), Policy::Eager);
    let memory = Memory::new(&machine.device(0)).strict();
    let error = memory.upload::<u8>(16 << 20).unwrap_err();
    let text = error.to_string();
    let Error::HostMemory(error) = error else {
        panic!("{text}")
    };
    assert!(error.strict && error.bytes == 16 << 20);
    for word in [
        "host memory, not GPU memory",
        "16.0 MiB",
        "ladder.rs",
        "limit",
        "strict",
    ] {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    // Nothing was left, and the next request is served.
    assert_eq!(
        machine.sim.live().host_bytes + machine.sim.live().registered_bytes,
        0
    );
    memory.upload::<u8>(1 << 20).unwrap();
}

#[test]
fn memory_that_kernels_use_in_place_never_becomes_pageable() {
    let machine = Machine::new(options().pin_limit(Some(1 << 20)), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    let error = memory.zero_copy::<u8>(16 << 20).unwrap_err();
    let Error::HostMemory(error) = error else {
        panic!("{error}")
    };
    assert!(
        error
            .tried
            .iter()
            .all(|step| step.tried == MemoryKind::Mapped)
    );
    assert_eq!(error.tried.len(), 1);
}

#[test]
fn without_a_measurement_write_combining_is_never_chosen() {
    let profile = pinfold_model::Profile::shipped("wc-real").unwrap();
    let machine = Machine::new(pinfold_hal_sim::SimOptions::new(profile), Policy::Eager);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    assert_eq!(
        memory.upload::<u8>(1000).unwrap().placement().kind(),
        MemoryKind::PageLocked
    );
    // Where it was measured to pay, it is.
    memory.set_measured(
        pinfold::measure::ReadCosts::measure(&device)
            .unwrap()
            .measured(),
    );
    let placement = memory.upload::<u8>(1000).unwrap().placement().clone();
    assert_eq!(placement.kind(), MemoryKind::WriteCombined, "{placement}");
    assert_eq!(placement.reason().code(), ReasonCode::WriteCombiningPays);
    // Results are read by the host, so never.
    assert_eq!(
        memory.download::<u8>(1000).unwrap().placement().kind(),
        MemoryKind::PageLocked
    );
}
