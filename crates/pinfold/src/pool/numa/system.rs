//! The nodes of the machine that this runs on, by the kernel's own calls: no library is needed for
//! the five that there are.

use super::{Nodes, NumaBinding};
use libc::{c_int, c_long, c_ulong};
use pinfold_hal::{DriverError, HostAddr};
use pinfold_machine::NumaNode;
use std::mem;
use std::ptr;

/// Most nodes that a mask holds; the kernel has no more.
const NODES_MAX: usize = 1024;
const WORD_BITS: usize = c_ulong::BITS as usize;
/// The kernel takes the number of bits, and counts one too few.
const MASK_BITS: usize = NODES_MAX + 1;
/// What has to be left on a node beside what is bound to it. A node that is full and bound to has
/// the kernel end processes; one that is merely preferred does not.
const LEFT_BYTES: u64 = 256 << 20;

type Mask = [c_ulong; NODES_MAX / WORD_BITS];

/// The nodes of this machine.
pub(super) struct SystemNodes {
    nodes: Vec<NumaNode>,
    numbers: Vec<u32>,
}

impl SystemNodes {
    pub(super) fn read() -> Self {
        let nodes = NumaNode::read_all();
        let with_memory = nodes.iter().filter(|node| node.has_memory());
        SystemNodes {
            numbers: with_memory.map(|node| node.id).collect(),
            nodes,
        }
    }

    /// The kernel's policies for a node, the better one first, and what each of them means.
    fn policies(node: u32, bytes: u64) -> impl Iterator<Item = (c_int, NumaBinding)> {
        let left = NumaNode::available_bytes(node);
        let is_tight = left.is_some_and(|left| left < bytes.saturating_add(LEFT_BYTES));
        let bind = (libc::MPOL_BIND, NumaBinding::Bound);
        let prefer = (libc::MPOL_PREFERRED, NumaBinding::Preferred);
        [bind, prefer].into_iter().skip(usize::from(is_tight))
    }
}

fn mask(node: u32) -> Option<Mask> {
    let mut mask = [0; NODES_MAX / WORD_BITS];
    *mask.get_mut(node as usize / WORD_BITS)? = 1 << (node as usize % WORD_BITS);
    Some(mask)
}

/// The calling thread's policy for new memory, put back when this goes away.
struct OldPolicy(c_int, Mask);

impl OldPolicy {
    fn get() -> Option<Self> {
        let (mut mode, mut mask): (c_int, Mask) = (0, [0; NODES_MAX / WORD_BITS]);
        // SAFETY: the kernel writes a number, and at most as many bits as the mask has.
        let got = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut mode,
                mask.as_mut_ptr(),
                MASK_BITS,
                ptr::null::<u8>(),
                0 as c_ulong,
            )
        };
        (got == 0).then_some(OldPolicy(mode, mask))
    }
}

impl Drop for OldPolicy {
    fn drop(&mut self) {
        // What was the policy is allowed, so this cannot fail for any reason that could be helped.
        set_policy(self.0, &self.1);
    }
}

fn set_policy(mode: c_int, mask: &Mask) -> bool {
    // The default policy takes no nodes.
    let (start, bits) = match mask.iter().all(|word| *word == 0) {
        true => (ptr::null(), 0),
        false => (mask.as_ptr(), MASK_BITS),
    };
    // SAFETY: the kernel reads as many bits as the mask has.
    let set = unsafe { libc::syscall(libc::SYS_set_mempolicy, c_long::from(mode), start, bits) };
    set == 0
}

impl Nodes for SystemNodes {
    fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    fn bind(&self, start: HostAddr, bytes: u64, node: u32) -> NumaBinding {
        let Some(mask) = mask(node) else {
            return NumaBinding::NoSuchNode;
        };
        let works = |mode: c_int| {
            // SAFETY: a policy for pages changes no memory, whoever's it is; the kernel reads as
            // many bits as the mask has.
            let bound = unsafe {
                libc::syscall(
                    libc::SYS_mbind,
                    start.0,
                    bytes,
                    c_long::from(mode),
                    mask.as_ptr(),
                    MASK_BITS,
                    0 as c_ulong,
                )
            };
            bound == 0
        };
        let mut policies = Self::policies(node, bytes);
        let bound = policies.find(|(mode, _)| works(*mode));
        bound.map_or(NumaBinding::Refused, |(_, binding)| binding)
    }

    fn allocate_near(
        &self,
        node: u32,
        bytes: u64,
        allocate: &mut dyn FnMut() -> Result<HostAddr, DriverError>,
    ) -> (Result<HostAddr, DriverError>, NumaBinding) {
        let Some(mask) = mask(node) else {
            return (allocate(), NumaBinding::NoSuchNode);
        };
        let Some(_old) = OldPolicy::get() else {
            return (allocate(), NumaBinding::Refused);
        };
        let mut policies = Self::policies(node, bytes);
        let set = policies.find(|(mode, _)| set_policy(*mode, &mask));
        let binding = set.map_or(NumaBinding::Refused, |(_, binding)| binding);
        (allocate(), binding)
    }

    fn run_near(&self, node: u32) {
        let near = self.nodes.iter().find(|near| near.id == node);
        let Some(cpus) = near.and_then(|near| near.cpus.as_ref()) else {
            return;
        };
        let bytes = mem::size_of::<libc::cpu_set_t>();
        // SAFETY: a set of processors is plain bits, and no bits are an empty one.
        let (mut allowed, mut both): (libc::cpu_set_t, libc::cpu_set_t) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        // SAFETY: the kernel writes at most as many bytes as the set has, for this thread.
        if unsafe { libc::sched_getaffinity(0, bytes, &raw mut allowed) } != 0 {
            return;
        }
        for cpu in cpus.iter().map(|cpu| cpu as usize) {
            // SAFETY: these only look at and set bits, and no bit is beyond the end of the set.
            unsafe {
                if cpu < 8 * bytes && libc::CPU_ISSET(cpu, &allowed) {
                    libc::CPU_SET(cpu, &mut both);
                }
            }
        }
        // Where the sets have nothing in common, this is refused, and the thread stays where it is.
        // SAFETY: the kernel reads as many bytes as the set has.
        unsafe { libc::sched_setaffinity(0, bytes, &raw const both) };
    }

    fn nodes_of(&self, pages: &[HostAddr]) -> Vec<Option<u32>> {
        let addrs: Vec<*const u8> = pages
            .iter()
            .map(|page| ptr::without_provenance(page.0))
            .collect();
        let mut nodes: Vec<c_int> = vec![-1; pages.len()];
        // SAFETY: without nodes to move to, the kernel only tells where pages are: it reads as many
        // addresses, and writes as many numbers, as there are.
        let told = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0 as c_long,
                addrs.len(),
                addrs.as_ptr(),
                ptr::null::<c_int>(),
                nodes.as_mut_ptr(),
                0 as c_long,
            )
        };
        let node = |node: c_int| u32::try_from(node).ok().filter(|_| told == 0);
        nodes.into_iter().map(node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(memory: &[u8]) -> Vec<HostAddr> {
        let start = memory.as_ptr().expose_provenance().next_multiple_of(4096);
        [start, start + 4096].map(HostAddr).to_vec()
    }

    /// Does nothing where the kernel has no such calls, or a container forbids them.
    #[test]
    fn memory_of_this_machine_lies_where_it_is_bound_to() {
        let nodes = SystemNodes::read();
        for node in nodes.numbers() {
            let mut memory = memmap2::MmapMut::map_anon(16384).unwrap();
            let pages = pages(&memory);
            if nodes.bind(pages[0], 8192, *node) == NumaBinding::Bound {
                memory.fill(1);
                let there = nodes.nodes_of(&pages);
                assert!(
                    there.iter().all(|n| n.is_none_or(|n| n == *node)),
                    "{there:?}"
                );
            }
        }
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let nodes = SystemNodes::read();
        let memory = memmap2::MmapMut::map_anon(16384).unwrap();
        let start = pages(&memory)[0];
        assert_eq!(nodes.bind(start, 8192, 1023), NumaBinding::Refused);
        assert_eq!(nodes.bind(start, 8192, u32::MAX), NumaBinding::NoSuchNode);
        // Pages that were never touched are nowhere.
        assert_eq!(nodes.nodes_of(&[start]), [None]);
    }

    #[test]
    fn the_threads_policy_is_as_it_was_after_an_allocation() {
        let nodes = SystemNodes::read();
        let policy = || OldPolicy::get().map(|old| (old.0, old.1));
        let before = policy();
        let mut calls = 0;
        for node in nodes.numbers() {
            let (made, binding) = nodes.allocate_near(*node, 4096, &mut || {
                calls += 1;
                if let Some((mode, _)) = policy() {
                    let is_set = [libc::MPOL_BIND, libc::MPOL_PREFERRED].contains(&mode);
                    assert!(is_set || Some(mode) == before.map(|(mode, _)| mode));
                }
                Ok(HostAddr(4096))
            });
            assert_eq!(made, Ok(HostAddr(4096)));
            assert_ne!(binding, NumaBinding::NoSuchNode);
            assert_eq!(policy(), before);
        }
        assert_eq!(calls, nodes.numbers().len());
    }

    #[test]
    fn a_thread_that_runs_near_a_node_still_runs() {
        let nodes = SystemNodes::read();
        std::thread::scope(|scope| {
            scope.spawn(|| nodes.run_near(0));
            scope.spawn(|| nodes.run_near(77));
        });
    }
}
