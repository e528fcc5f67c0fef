//! How much can be page-locked is found out by trying, and nothing is left behind.

use crate::common::{Machine, options};
use pinfold::Memory;
use pinfold::pool::Pool;
use pinfold_hal_sim::Policy;

#[test]
fn r21_the_ceiling_is_found_by_steps_and_leaves_no_memory_and_no_error_behind() {
    const LIMIT: u64 = 300 << 20;
    let machine = Machine::new(options().pin_limit(Some(LIMIT)), Policy::Eager);
    let device = machine.device(0);
    let ceiling = Pool::pin_ceiling(&device, 2 << 30).unwrap();
    assert!(
        ceiling.bytes <= LIMIT && ceiling.bytes > LIMIT - (16 << 20),
        "{ceiling:?}"
    );
    assert!(ceiling.stopped_by.is_some());
    assert_eq!(machine.sim.live().registered_bytes, 0);
    let enough = Pool::pin_ceiling(&device, 128 << 20).unwrap();
    assert_eq!((enough.bytes, enough.stopped_by), (128 << 20, None));
    let memory = Memory::new(&device).strict();
    drop(memory.upload::<u8>(64 << 20).unwrap());
    drop((memory, device));
    machine.check_clean();
}
