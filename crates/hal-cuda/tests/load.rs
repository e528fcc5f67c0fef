//! Loading the backend on whatever machine this is.

use pinfold_hal::{BackendOps, DeviceId, Driver, ErrorCode, HostAllocFlags, Result};
use pinfold_hal_cuda::{Cuda, LoadError};
use std::sync::Arc;

/// The backend, or `None` with a word about why.
fn load() -> Option<Cuda> {
    match Cuda::load() {
        Ok(cuda) => Some(cuda),
        Err(error) => {
            println!("skipped: no CUDA device ({error})");
            None
        }
    }
}

fn close(driver: &dyn Driver, device: DeviceId) -> Result<()> {
    // SAFETY: the tests free what they allocate before they close, and enqueue nothing.
    unsafe { driver.close(device) }
}

#[test]
fn loading_gives_a_backend_or_says_what_to_do() {
    match Cuda::load() {
        Ok(cuda) => {
            let info = cuda.info();
            assert_eq!((info.name.as_str(), info.simulated), ("cuda", false));
            assert!(cuda.device_count().unwrap() > 0);
        }
        Err(LoadError::NoLibrary) => {
            let text = LoadError::NoLibrary.to_string();
            assert!(text.contains("install the NVIDIA driver"), "{text}");
        }
        Err(error) => println!("skipped: no CUDA device ({error})"),
    }
}

#[test]
fn a_device_is_usable_only_while_it_is_open() {
    let Some(cuda) = load() else { return };
    let device = DeviceId(0);
    let closed = cuda.device_memory(device).unwrap_err();
    assert_eq!(closed.code, ErrorCode::InvalidContext);
    cuda.open(device).unwrap();
    cuda.open(device).unwrap();
    close(&cuda, device).unwrap();
    let (free, total) = cuda.device_memory(device).unwrap();
    assert!(free <= total);
    close(&cuda, device).unwrap();
    assert_eq!(
        close(&cuda, device).unwrap_err().code,
        ErrorCode::InvalidContext
    );
}

#[test]
fn any_thread_may_call() {
    let Some(cuda) = load() else { return };
    let driver: Arc<dyn Driver> = Arc::new(cuda);
    let device = DeviceId(0);
    driver.open(device).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let driver = Arc::clone(&driver);
            std::thread::spawn(move || {
                let addr = driver.host_alloc(device, 4096, HostAllocFlags::default())?;
                // SAFETY: allocated one line before, and used by nobody.
                unsafe { driver.host_free(device, addr) }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    close(&*driver, device).unwrap();
}
