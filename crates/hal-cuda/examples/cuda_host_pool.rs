//! What CUDA's own pool of host memory costs, to compare pinfold's with: a warm pair of
//! `cuMemAllocFromPoolAsync` and `cuMemFreeAsync`, in nanoseconds, as JSON.
//!
//!     cargo run --release -p pinfold-hal-cuda --example cuda_host_pool

use cudarc::driver::sys::{
    self, CUdeviceptr, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUmemPoolProps, CUmemoryPool, CUresult, CUstream,
};
use std::process::ExitCode;
use std::time::Instant;

const SIZES: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, 64 << 20];
const PAIRS: u32 = 2_000;
const REPEATS: usize = 31;

fn check(call: &str, result: CUresult) -> Result<(), String> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(format!("{call}: {other:?}")),
    }
}

/// Nanoseconds of a pair, and of the first pair of all.
fn measure() -> Result<Vec<(usize, f64, f64)>, String> {
    let (mut device, mut context) = (0, std::ptr::null_mut());
    let (mut pool, mut stream): (CUmemoryPool, CUstream) =
        (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: zeros are a valid value of this plain struct.
    let mut props: CUmemPoolProps = unsafe { std::mem::zeroed() };
    props.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;
    props.location = CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA,
        id: 0,
    };
    let mut keep: u64 = u64::MAX;
    let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: every pointer is to a live local of the type that the call writes or reads.
    unsafe {
        check("cuInit", sys::cuInit(0))?;
        check("cuDeviceGet", sys::cuDeviceGet(&mut device, 0))?;
        let retained = sys::cuDevicePrimaryCtxRetain(&mut context, device);
        check("cuDevicePrimaryCtxRetain", retained)?;
        check("cuCtxSetCurrent", sys::cuCtxSetCurrent(context))?;
        check("cuMemPoolCreate", sys::cuMemPoolCreate(&mut pool, &props))?;
        let keep = (&raw mut keep).cast();
        let set = sys::cuMemPoolSetAttribute(pool, threshold, keep);
        check("cuMemPoolSetAttribute", set)?;
        check("cuStreamCreate", sys::cuStreamCreate(&mut stream, 1))?;
    }
    let mut found = Vec::new();
    for bytes in SIZES {
        let start = Instant::now();
        pair(bytes, pool, stream)?;
        let first = start.elapsed().as_nanos() as f64;
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            let start = Instant::now();
            for _ in 0..PAIRS {
                pair(bytes, pool, stream)?;
            }
            times.push(start.elapsed().as_nanos() as f64 / f64::from(PAIRS));
        }
        times.sort_by(f64::total_cmp);
        found.push((bytes, times[REPEATS / 2], first));
    }
    Ok(found)
}

fn pair(bytes: usize, pool: CUmemoryPool, stream: CUstream) -> Result<(), String> {
    let mut addr: CUdeviceptr = 0;
    // SAFETY: pool and stream are live, and `addr` is written by the first call only.
    unsafe {
        let allocated = sys::cuMemAllocFromPoolAsync(&mut addr, bytes, pool, stream);
        check("cuMemAllocFromPoolAsync", allocated)?;
        check("cuMemFreeAsync", sys::cuMemFreeAsync(addr, stream))
    }
}

fn main() -> ExitCode {
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        eprintln!("libcuda was not found: this needs a GPU");
        return ExitCode::FAILURE;
    }
    match measure() {
        Ok(found) => {
            let rows: Vec<String> = found
                .iter()
                .map(|(bytes, warm_ns, first_ns)| {
                    format!("{{\"bytes\":{bytes},\"warm_ns\":{warm_ns},\"first_ns\":{first_ns}}}")
                })
                .collect();
            println!("[{}]", rows.join(","));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
