//! Pieces of mixed sizes: the list, checked once, and the kernel that copies it.

use super::refused;
use crate::buffer::{DeviceRead, DeviceWrite, InFlight, UploadBuffer};
use crate::error::Result;
use crate::launch::{Args, Kernel, Module, Shape};
use crate::memory::Memory;
use crate::stream::Stream;
use pinfold_hal::Pattern;
use pinfold_kernels::gather::{ITEM_BYTES, Piece, PieceWords, pieces_shape};

/// Most items of a list, each of up to 8 KiB: 96 MiB of list for up to 32 GiB of pieces.
pub const ITEMS_MAX: u64 = 4 << 20;

/// Pieces to copy from one buffer to another, checked, and cut into items that the kernel reads in
/// place. It can be used again, for any buffers that are as long as it reaches.
#[derive(Debug)]
pub struct PieceList {
    items: InFlight<UploadBuffer<PieceWords>>,
    bytes: u64,
    from_end: u64,
    to_end: u64,
}

impl PieceList {
    /// Checks pieces, and puts them into host memory where kernels read them. Pieces of no bytes
    /// are left out. Quickest where the pieces come in the order of their places in the target.
    ///
    /// # Errors
    /// [`Error::Launch`](crate::Error::Launch) where two pieces share a byte of the target, where
    /// one ends beyond what 64 bits can name, and for more than [`ITEMS_MAX`] items, where a piece
    /// is one item for each 8 KiB that it begins; where the memory cannot be had.
    pub fn new(memory: &Memory, pieces: &[Piece]) -> Result<Self> {
        let (mut from_end, mut to_end, mut bytes, mut items) = (0, 0, 0u64, 0u64);
        let mut ascending = true;
        for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
            let Some(ends) = piece.from_end().zip(piece.to_end()) else {
                return refused(format!("{piece:?} ends beyond all memory"));
            };
            ascending &= piece.to >= to_end;
            from_end = ends.0.max(from_end);
            to_end = ends.1.max(to_end);
            bytes = bytes.saturating_add(piece.bytes);
            items = items.saturating_add(piece.item_count());
        }
        if items > ITEMS_MAX {
            return refused(format!(
                "{items} items of up to {ITEM_BYTES} bytes in one list of pieces, at most \
                 {ITEMS_MAX}; make several lists"
            ));
        }
        if !ascending {
            check_apart(pieces)?;
        }
        let mut list = memory.upload_in_place(items as usize)?;
        let mut pieces = pieces.iter();
        let mut rest = Piece::default();
        list.write_each(|_| {
            while rest.bytes == 0 {
                match pieces.next() {
                    Some(piece) => rest = *piece,
                    None => break,
                }
            }
            rest.cut_item()
        });
        Ok(PieceList {
            items: list.lend(),
            bytes,
            from_end,
            to_end,
        })
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// # Errors
/// Where two pieces share a byte of the target.
fn check_apart(pieces: &[Piece]) -> Result<()> {
    let mut targets: Vec<(u64, u64)> = pieces
        .iter()
        .filter(|piece| piece.bytes > 0)
        .map(|piece| (piece.to, piece.bytes))
        .collect();
    targets.sort_unstable();
    let shared = targets
        .windows(2)
        .find(|pair| pair[1].0 - pair[0].0 < pair[0].1);
    match shared {
        Some(&[(first, bytes), (second, _)]) => refused(format!(
            "the piece to byte {first} of the target, {bytes} bytes long, and the one to byte \
             {second} share bytes; copy them in two launches"
        )),
        _ => Ok(()),
    }
}

/// The kernel that copies pieces.
pub(super) struct Pieces {
    kernel: Kernel,
}

impl Pieces {
    pub(super) fn load(module: &Module) -> Result<Self> {
        let kernel = module.kernel("copy_pieces")?;
        Ok(Pieces { kernel })
    }

    pub(super) fn copy(
        &self,
        stream: &Stream,
        list: &PieceList,
        from: &impl DeviceRead,
        to: &mut impl DeviceWrite,
    ) -> Result<()> {
        let ends = [
            ("source", list.from_end, from.span().bytes),
            ("target", list.to_end, to.span().bytes),
        ];
        if let Some((what, end, held)) = ends.into_iter().find(|(_, end, held)| end > held) {
            return refused(format!(
                "the pieces reach to byte {end} of a {what} of {held} bytes"
            ));
        }
        let n = list.items.len() as u64;
        let scattered = Pattern::Random {
            row_bytes: list.bytes.div_ceil(n.max(1)) as u32,
            count: n,
        };
        let (blocks, threads) = pieces_shape(n);
        let args = Args::new()
            .reads_as(from, scattered)
            .updates_as(to, scattered)
            .reads(&list.items)
            .scalar(n);
        // SAFETY: these are the arguments of `copy_pieces`. Items lie within the pieces that they
        // were cut from, which end before the ends of `from` and `to`; nothing has written the list
        // since.
        unsafe { stream.launch(&self.kernel, Shape::linear(blocks, threads), args) }
    }
}
