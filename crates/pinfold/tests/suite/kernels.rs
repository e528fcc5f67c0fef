//! Kernels, in place and on the device: the built-in ones and a user's own.

use crate::common::{Machine, everywhere, options};
use pinfold::hal::{ModuleImage, Twin};
use pinfold::kernels::cg::Csr;
use pinfold::kernels::dot::Dot;
use pinfold::{Args, Error, Memory, Module, Shape};
use pinfold_hal_sim::Policy;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn the_dot_product_is_the_same_bits_from_every_place_everywhere() {
    let bits = std::cell::Cell::new(None);
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let mut dot = Dot::load(&memory, &stream).unwrap();
        let mut cell = memory.scalar_cell().unwrap();
        let n = 10_001;
        let fill = |salt: usize| {
            let mut buffer = memory.upload_in_place::<f32>(n).unwrap();
            buffer.write_each(|i| ((i * 37 + salt) % 1000) as f32 - 499.5);
            buffer.lend()
        };
        let (a, b) = (fill(1), fill(2));
        let mut copy_of_a = memory.device(n).unwrap();
        let a = stream.upload(a, &mut copy_of_a).unwrap();
        let expected = dot.run(&stream, &a, &b, &mut cell).unwrap();
        let [in_place, _] = cell.wait(expected, LIMIT).unwrap();
        let expected = dot.run(&stream, &copy_of_a, &b, &mut cell).unwrap();
        let [mixed, _] = cell.wait(expected, LIMIT).unwrap();
        assert_eq!(in_place.to_bits(), mixed.to_bits());
        let first = bits.get().unwrap_or(in_place.to_bits());
        bits.set(Some(first));
        assert_eq!(in_place.to_bits(), first, "{}", place.name);
        // Interior offsets: the last ten elements alone.
        let tail = n - 10..n;
        let (a_tail, b_tail) = (
            a.slice(tail.clone()).unwrap(),
            b.slice(tail.clone()).unwrap(),
        );
        let expected = dot.run(&stream, &a_tail, &b_tail, &mut cell).unwrap();
        let [got, _] = cell.wait(expected, LIMIT).unwrap();
        let value = |i: usize, salt: usize| f64::from(((i * 37 + salt) % 1000) as f32 - 499.5);
        let want: f64 = tail.map(|i| value(i, 1) * value(i, 2)).sum();
        assert_eq!(got, want);
    });
}

#[test]
fn a_result_in_device_memory_is_copied_back() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let mut dot = Dot::load(&memory, &stream).unwrap();
        let mut ones = memory.device::<f32>(4096).unwrap();
        let mut up = memory.upload(4096).unwrap();
        up.write_each(|_| 1.0);
        drop(stream.upload(up, &mut ones).unwrap());
        let mut cell = memory.device(1).unwrap();
        dot.run(&stream, &ones, &ones, &mut cell).unwrap();
        let back = stream
            .download(&cell, memory.download(1).unwrap())
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(f64::from_bits(back[0][0]), 4096.0, "{}", place.name);
    });
}

const SCALE: &str = "
.version 7.5
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 data, .param .u32 n, .param .f32 by)
{
    .reg .pred %outside;
    .reg .b32 %i, %block, %threads, %thread, %count;
    .reg .f32 %value, %factor;
    .reg .b64 %at, %bytes;
    ld.param.u64 %at, [data];
    ld.param.u32 %count, [n];
    ld.param.f32 %factor, [by];
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mad.lo.u32 %i, %block, %threads, %thread;
    setp.ge.u32 %outside, %i, %count;
    @%outside ret;
    mul.wide.u32 %bytes, %i, 4;
    add.u64 %at, %at, %bytes;
    ld.f32 %value, [%at];
    mul.f32 %value, %value, %factor;
    st.f32 [%at], %value;
    ret;
}
";

fn scale() -> ModuleImage {
    let twin = Twin::new("scale", |call| {
        let [data, n, by] = call.args::<3>()?;
        let (n, by) = (n.scalar::<u32>()?, by.scalar::<f32>()?);
        data.write::<f32>()?[..n as usize]
            .iter_mut()
            .for_each(|v| *v *= by);
        Ok(())
    });
    ModuleImage {
        name: "user".into(),
        ptx: SCALE.into(),
        twins: vec![twin],
    }
}

#[test]
fn a_users_own_kernel_updates_lent_memory_in_place() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let kernel = Module::load(&device, &scale())
            .unwrap()
            .kernel("scale")
            .unwrap();
        let mut buffer = memory.zero_copy::<f32>(500).unwrap();
        buffer
            .iter_mut()
            .enumerate()
            .for_each(|(i, v)| *v = i as f32);
        let mut lent = buffer.lend();
        for by in [2.0f32, 3.0] {
            let args = Args::new().updates(&mut lent).scalar(500u32).scalar(by);
            // SAFETY: these are the kernel's arguments, and it stays within the first.
            unsafe { stream.launch(&kernel, Shape::linear(4, 128), args).unwrap() };
        }
        let buffer = lent.wait().unwrap();
        let right = buffer.iter().enumerate().all(|(i, v)| *v == 6.0 * i as f32);
        assert!(right, "{}", place.name);
    });
}

#[test]
fn bad_kernels_and_launches_are_refused_clearly() {
    let machine = Machine::new(options(), Policy::Eager);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let module = Module::load(&device, &scale()).unwrap();
    assert!(
        module
            .kernel("shrink")
            .unwrap_err()
            .to_string()
            .contains("shrink")
    );
    let broken = ModuleImage {
        ptx: "not PTX".into(),
        ..scale()
    };
    assert!(Module::load(&device, &broken).is_err());
    let kernel = module.kernel("scale").unwrap();
    let mut data = memory.device::<f32>(10).unwrap();
    let args = Args::new().updates(&mut data).scalar([0u64; 2]);
    // SAFETY: refused before anything is launched.
    let error = unsafe { stream.launch(&kernel, Shape::linear(1, 32), args) }.unwrap_err();
    assert!(matches!(error, Error::Launch { .. }), "{error}");
    // Memory that was not made for kernels is out of their reach.
    let page_locked = memory.upload::<f32>(10).unwrap().lend();
    let args = Args::new().reads(&page_locked);
    // SAFETY: as above.
    let error = unsafe { stream.launch(&kernel, Shape::linear(1, 32), args) }.unwrap_err();
    assert!(matches!(error, Error::NotMapped { .. }), "{error}");
}

fn silent() -> ModuleImage {
    let ptx = ".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry silent() { ret; }\n";
    ModuleImage {
        name: "silent".into(),
        ptx: ptx.into(),
        twins: vec![Twin::new("silent", |_| Ok(()))],
    }
}

#[test]
fn waiting_for_scalars_ends_where_they_are_not_to_be_had() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let mut dot = Dot::load(&memory, &stream).unwrap();
    let ones = memory.upload_in_place::<f32>(64).unwrap().lend();
    let (mut first, second) = (memory.scalar_cell().unwrap(), memory.scalar_cell().unwrap());
    let expected = dot.run(&stream, &ones, &ones, &mut first).unwrap();
    // The wrong cell.
    let error = second.wait(&expected, LIMIT).unwrap_err();
    assert!(matches!(error, Error::Scalar { .. }), "{error}");
    // A later launch into the same cell.
    let later = dot.run(&stream, &ones, &ones, &mut first).unwrap();
    assert_eq!(first.wait(&later, LIMIT).unwrap()[0], 0.0);
    let error = first.wait(&expected, LIMIT).unwrap_err().to_string();
    assert!(error.contains("overwritten"), "{error}");
    // A kernel that publishes nothing at all.
    let module = Module::load(&device, &silent()).unwrap();
    let kernel = module.kernel("silent".to_owned()).unwrap();
    // SAFETY: the kernel takes no arguments and touches nothing.
    unsafe { stream.launch(&kernel, Shape::linear(1, 32), Args::new()) }.unwrap();
    let mut third = memory.scalar_cell().unwrap();
    let promise = dot.run(&stream, &ones, &ones, &mut third).unwrap();
    machine.sim.lose_device(pinfold_hal::DeviceId(0));
    assert!(third.wait(promise, LIMIT).is_err());
}

#[test]
fn a_cell_without_room_is_refused() {
    let machine = Machine::new(options(), Policy::Eager);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let mut dot = Dot::load(&memory, &stream).unwrap();
    let ones = memory.upload_in_place::<f32>(64).unwrap().lend();
    let mut nothing = memory.device(0).unwrap();
    let error = dot.run(&stream, &ones, &ones, &mut nothing).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    stream.synchronize().unwrap();
}

#[test]
fn a_matrix_whose_parts_do_not_fit_is_refused() {
    for (row_start, columns, values, word) in [
        (
            &[0, 1, 3][..],
            &[0, 1, 2][..],
            &[1.0; 3][..],
            "column 2 of 2",
        ),
        (&[0, 2, 1], &[0], &[1.0], "ends before it starts"),
        (&[0, 1, 2], &[0], &[1.0], "belong together"),
        (&[1, 2], &[0, 0], &[1.0; 2], "begin with 0"),
        (&[], &[], &[], "begin with 0"),
    ] {
        let error = Csr::new(row_start, columns, values)
            .unwrap_err()
            .to_string();
        assert!(error.contains(word), "{error}");
    }
}
