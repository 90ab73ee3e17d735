// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the engine sees a NIC and its memory: four small contracts that a driver
//! (or a test) implements. The engine holds no socket, ring or address.
//!
//! * [`ChunkPool`]: registered payload memory, reference-counted by chunk.
//! * [`TxPort`]: takes [`Burst`]s and flow handles; one doorbell a batch.
//! * [`RxPort`]: hands over received frames and transmit completions.
//! * [`TxCompletion`]: what became of a burst, at the departure of its last byte.
//!
//! Ownership of payload: a [`ChunkRef`] in a burst points into a chunk on which
//! the *engine* holds references from before the post until after it was given
//! the burst's completion. So a port neither retains nor releases chunks; it
//! only turns a reference into an address. Header bytes are borrowed for the
//! call: a port copies them. Neither side allocates memory for a burst.
//!
//! Order of calls in a turn of a host's loop: reap completions, receive frames,
//! call the application, `Engine::poll` (which posts and flushes).

use thiserror::Error;
use tsonic_types::{ByteRate, FlowSlot, Nanos, QueueId, WireBytes};

/// Most payload fragments of a burst that the engine makes.
pub const FRAGMENTS_MAX: usize = 17;
/// Longest header template that the engine makes: Ethernet with two VLAN tags,
/// IPv6, TCP with 40 option bytes, rounded up.
pub const HEADER_MAX: usize = 128;
/// Smallest chunk a pool may have, in bytes.
pub const CHUNK_MIN: usize = 16 * 1024;

/// A chunk of a pool. Its number means something to the pool only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub u32);

/// A range of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkRef {
    /// The chunk.
    pub chunk: ChunkId,
    /// First byte of the range in the chunk.
    pub offset: u32,
    /// Bytes of the range, at least 1.
    pub len: u32,
}

/// Registered (DMA-able) payload memory in chunks of equal size.
///
/// A pool is cheap to clone or to borrow (a handle to the driver's memory); the
/// engine owns one. The count of references of a chunk is kept by the pool:
/// `allocate` gives a chunk with one reference, `retain` adds one, `release`
/// takes one away and frees the chunk with the last. The engine holds one while
/// unacknowledged bytes of its send buffer lie in the chunk, and one for each
/// burst in the NIC that points into it: thus a chunk is free when its bytes are
/// acknowledged *and* completed.
pub trait ChunkPool {
    /// Bytes of every chunk, at least [`CHUNK_MIN`].
    fn chunk_bytes(&self) -> usize;

    /// A chunk with one reference, or `None` when the pool is exhausted: the
    /// engine then accepts fewer bytes of the application's write.
    fn allocate(&mut self) -> Option<ChunkId>;

    /// Copies `bytes` to `offset`. The engine writes only into ranges that no
    /// burst has pointed to yet, and never beyond the chunk.
    fn write(&mut self, chunk: ChunkId, offset: u32, bytes: &[u8]);

    /// Copies the range to `out`, which is as long as the range.
    fn read(&self, range: ChunkRef, out: &mut [u8]);

    /// One more reference.
    fn retain(&mut self, chunk: ChunkId);

    /// One reference less; the last one frees the chunk.
    fn release(&mut self, chunk: ChunkId);

    /// Chunks that `allocate` could still give.
    fn available(&self) -> usize;
}

/// What a port can take. Fixed while the engine uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxLimits {
    /// Most payload bytes of a burst (Linux: gso_max_size, without its header
    /// reserve).
    pub gso_max: u32,
    /// Most segments of a burst.
    pub gso_max_segs: u32,
    /// Most payload bytes of one segment.
    pub max_segment: u32,
    /// Most payload fragments of a burst, at least 2; the engine uses at most
    /// [`FRAGMENTS_MAX`].
    pub fragments: usize,
    /// Transmit queues, at least 1.
    pub queues: u16,
    /// Whether flows with a handle are paced by the NIC.
    pub paces: bool,
    /// Whether TCP segmentation may be used; without it every burst is one
    /// segment.
    pub tso: bool,
}

/// State of a transmit queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Bursts that can be posted now.
    pub free: usize,
    /// Dynamic queue limit and bytes charged against it (wire bytes), as the NIC
    /// last reported them; `None` when it reports none.
    pub bql: Option<(WireBytes, WireBytes)>,
}

/// What the NIC does with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BurstKind {
    /// One frame as it stands; checksums are already right.
    Raw,
    /// One frame; the NIC writes IPv4 header and L4 checksum.
    Csum,
    /// TCP segmentation: segments of `mss` payload bytes, the last may be shorter.
    Tso,
}

/// A burst to post: header template, payload, and how to send it.
///
/// In the template of `Csum` and `Tso` the checksum fields hold anything, the
/// length fields are those of the whole burst where 16 bits hold them, and
/// sequence number, IPv4 identification and flags are those of the first segment
/// (FIN and PSH: of the last; the NIC moves them).
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// Transmit queue.
    pub queue: QueueId,
    /// Flow handle, or [`FlowSlot::UNPACED`].
    pub flow: FlowSlot,
    /// What to do.
    pub kind: BurstKind,
    /// Template: `l2_len + l3_len + l4_len` bytes, at most [`HEADER_MAX`].
    pub header: &'a [u8],
    /// Bytes of the L2 header with VLAN tags.
    pub l2_len: u8,
    /// Bytes of the L3 header.
    pub l3_len: u16,
    /// Bytes of the L4 header with options.
    pub l4_len: u8,
    /// L3 is IPv6 (else IPv4; meaningless for `Raw`).
    pub ipv6: bool,
    /// Every segment keeps the template's IPv4 identification.
    pub ip_id_fixed: bool,
    /// CWR stays on every segment (accurate ECN), else on the first only.
    pub cwr_all: bool,
    /// Payload bytes of a segment; 0 unless `Tso`.
    pub mss: u16,
    /// Payload bytes: the sum of the fragments.
    pub payload_len: u32,
    /// Payload in order, at most [`TxLimits::fragments`].
    pub fragments: &'a [ChunkRef],
    /// Rate of the flow from this burst on in *wire* bytes per second
    /// ([`WireBytes`]); `None`: leave it unpaced.
    pub rate: Option<ByteRate>,
    /// Earliest departure of the first segment on the device's clock.
    pub launch: Option<Nanos>,
    /// Complete at once, whatever moderation says.
    pub complete_now: bool,
    /// The engine's name for the burst; its completion returns it.
    pub token: u64,
}

/// Why a burst was not taken. It was not posted, no completion will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// The queue's ring (or the driver's table of bursts) is full; a completion
    /// of that queue makes room.
    #[error("transmit queue {0} is full: wait for a completion")]
    Backpressure(QueueId),
    /// The queue is not enabled, or is being reset.
    #[error("transmit queue {0} is down: wait until it is enabled")]
    QueueDown(QueueId),
    /// The burst breaks a limit of the port (status code of the contract): a
    /// bug of the engine or wrong [`TxLimits`].
    #[error("burst refused with status code {0}: check the port's limits")]
    Refused(u8),
}

/// Where bursts go.
pub trait TxPort {
    /// What the port can take.
    fn limits(&self) -> TxLimits;

    /// State of a queue; an unknown queue has `free` 0.
    fn queue_state(&self, queue: QueueId) -> QueueState;

    /// A row of the NIC's flow table for one connection, never
    /// [`FlowSlot::UNPACED`]; `None` when none is left (the engine then paces the
    /// flow itself over slot 0).
    fn allocate_flow(&mut self) -> Option<FlowSlot>;

    /// Gives a handle back. Bursts of it may still be in the NIC: the port hands
    /// the row out again only when they have completed.
    fn free_flow(&mut self, flow: FlowSlot);

    /// Puts a burst on its queue's ring, without a doorbell. Order within a queue
    /// is the order of the posts.
    ///
    /// # Errors
    /// [`PostError`]; nothing was posted then.
    fn post(&mut self, burst: &Burst<'_>) -> Result<(), PostError>;

    /// Rings the doorbell of every queue that was posted to since the last call.
    fn flush(&mut self);
}

/// What became of a burst. One for every burst posted, in any order between
/// queues, in the order of departure within a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCompletion {
    /// Token of the burst.
    pub token: u64,
    /// Its queue.
    pub queue: QueueId,
    /// Its flow.
    pub flow: FlowSlot,
    /// Status code of the contract; 0 is success. On any other code the segments
    /// that are missing from `segments` never departed.
    pub status: u8,
    /// Departure of the first frame (its last byte handed to the MAC).
    pub first_departure: Nanos,
    /// Departure of the last frame.
    pub last_departure: Nanos,
    /// Wire bytes that departed.
    pub wire_bytes: WireBytes,
    /// Frames that departed.
    pub segments: u32,
    /// The queue was congested when the burst joined it.
    pub congested: bool,
    /// The flow passed its byte limit in the NIC.
    pub throttled: bool,
    /// The flow fell below its byte limit again.
    pub wake: bool,
}

/// Verdict of the NIC on a checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// Not checked by the NIC: the engine checks it.
    #[default]
    None,
    /// Right.
    Ok,
    /// Wrong: the engine drops the frame and counts it.
    Bad,
}

/// What the NIC says about a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxMeta {
    /// Receive queue.
    pub queue: QueueId,
    /// Arrival of the frame's first byte.
    pub arrival: Nanos,
    /// IPv4 header checksum.
    pub ip_checksum: Checksum,
    /// TCP or UDP checksum.
    pub l4_checksum: Checksum,
    /// RSS hash, when the NIC computed one.
    pub hash: Option<u32>,
}

/// Where frames and completions come from.
pub trait RxPort {
    /// Hands at most `budget` transmit completions to `each`, oldest first of
    /// each queue, and says how many there were. To be called before
    /// [`RxPort::receive`]: a completion that is known gives the ACK its RTT.
    fn reap<F: FnMut(&TxCompletion)>(&mut self, budget: usize, each: F) -> usize;

    /// Hands at most `budget` received frames (Ethernet without padding check and
    /// FCS) to `each`, and says how many there were. The bytes are the host's
    /// during the call only.
    fn receive<F: FnMut(&[u8], &RxMeta)>(&mut self, budget: usize, each: F) -> usize;
}
