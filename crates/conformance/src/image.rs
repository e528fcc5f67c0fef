//! The suite's own kernels: hand-written PTX, and the Rust twin of each.

use pinfold_hal::{ModuleImage, Twin, TwinCall, TwinError};
use std::borrow::Cow;

/// `dst[i] += 3 * src[i] + 1`.
pub(crate) const ADD: &str = "conf_add_u32";
/// Writes data, then a flag that tells about it.
pub(crate) const PUBLISH: &str = "conf_publish";
/// Takes a given time.
pub(crate) const SPIN: &str = "conf_spin";

/// PTX with a correct head and a body that no compiler takes.
pub(crate) const BROKEN_PTX: &str = "\
.version 7.5
.target sm_75
.address_size 64
.visible .entry conf_broken()
{
    this is no instruction;
}
";

/// All kernels of the suite.
pub(crate) fn image() -> ModuleImage {
    ModuleImage {
        name: Cow::Borrowed("conformance"),
        ptx: Cow::Borrowed(include_str!("conformance.ptx")),
        twins: vec![
            Twin::new(ADD, add),
            Twin::new(PUBLISH, publish),
            Twin::new(SPIN, spin),
        ],
    }
}

fn add(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let threads = call.threads_x();
    let [dst, src, n] = call.args::<3>()?;
    let count = threads.min(n.scalar::<u32>()? as usize);
    for (dst, src) in dst
        .write::<u32>()?
        .iter_mut()
        .zip(src.read::<u32>()?)
        .take(count)
    {
        *dst = add_result(*dst, *src);
    }
    Ok(())
}

/// What `conf_add_u32` makes of one element.
pub(crate) fn add_result(dst: u32, src: u32) -> u32 {
    dst.wrapping_add(src.wrapping_mul(3)).wrapping_add(1)
}

fn publish(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let threads = call.threads_x();
    let [data, flag, value, n] = call.args::<4>()?;
    let value = value.scalar::<u32>()?;
    let count = threads.min(n.scalar::<u32>()? as usize);
    for (i, element) in (0..).zip(data.write::<u32>()?.iter_mut().take(count)) {
        *element = value.wrapping_add(i);
    }
    flag.write::<u32>()?
        .first_mut()
        .map(|flag| *flag = value)
        .ok_or_else(|| TwinError("the flag has no room".into()))
}

/// Computes nothing: a simulated launch takes its time from the declared passes over `scratch`.
fn spin(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let [scratch, cycles] = call.args::<2>()?;
    scratch.read::<u64>()?;
    cycles.scalar::<u64>().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_hal::{Scalar, TwinArg};

    #[test]
    fn every_twin_has_a_kernel_and_every_kernel_a_twin() {
        let image = image();
        for twin in &image.twins {
            assert!(image.ptx.contains(&format!(".entry {}(", twin.name)));
        }
        assert_eq!(image.ptx.matches(".entry ").count(), image.twins.len());
    }

    #[test]
    fn the_add_twin_stops_at_n() {
        let mut dst = [10u32, u32::MAX, 7];
        let src = [1u32, 2, 3];
        let mut call = TwinCall {
            grid: [1, 1, 1],
            block: [32, 1, 1],
            args: vec![
                TwinArg::Write(bytemuck::cast_slice_mut(&mut dst)),
                TwinArg::Read(bytemuck::cast_slice(&src)),
                TwinArg::Scalar(Scalar::new(2u32).unwrap()),
            ],
        };
        add(&mut call).unwrap();
        assert_eq!(dst, [14, 6, 7]);
    }
}
