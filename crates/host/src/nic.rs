// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's queues as the ports that the engine wants.
//!
//! Thin on purpose: identities and units are the same on both sides, so what is
//! left is to turn chunk references into addresses, and to keep an error of the
//! bus until the loop can see it.

use crate::pacing::PacingMeter;
use tsonic_driver::stats::WatchStats;
use tsonic_driver::{ChecksumVerdict, Kind, RSS_KEY_DEFAULT, Status};
use tsonic_driver::{
    ChunkMap, Device, DriverError, FlowTable, Fragment, PostError as DriverPostError, RxConfig,
    RxQueue, TxBurst, TxConfig, TxQueue, Watchdog, WatchdogConfig,
};
use tsonic_pci::{PciFunction, Wake};
use tsonic_tcp::port::FRAGMENTS_MAX;
use tsonic_tcp::{
    Burst, BurstKind, Checksum, ChunkId, ChunkPool, ChunkRef, PostError, QueueState, RxMeta,
    RxPort, TxCompletion, TxLimits, TxPort,
};
use tsonic_types::{ByteRate, FlowSlot, Nanos, QueueId};

/// The driver's chunk pool, as the engine's.
#[derive(Debug)]
pub struct Pool(tsonic_driver::ChunkPool);

impl Pool {
    /// Wraps the driver's pool.
    pub fn new(pool: tsonic_driver::ChunkPool) -> Pool {
        Pool(pool)
    }

    /// Where the chunks lie for the device.
    pub fn map(&self) -> ChunkMap {
        self.0.map()
    }
}

impl ChunkPool for Pool {
    #[inline]
    fn chunk_bytes(&self) -> usize {
        self.0.chunk_bytes()
    }
    #[inline]
    fn allocate(&mut self) -> Option<ChunkId> {
        self.0.allocate().map(ChunkId)
    }
    fn write(&mut self, chunk: ChunkId, offset: u32, bytes: &[u8]) {
        self.0.write(chunk.0, offset, bytes);
    }
    fn read(&self, range: ChunkRef, out: &mut [u8]) {
        self.0.read(range.chunk.0, range.offset, out);
    }
    #[inline]
    fn retain(&mut self, chunk: ChunkId) {
        self.0.retain(chunk.0);
    }
    #[inline]
    fn release(&mut self, chunk: ChunkId) {
        self.0.release(chunk.0);
    }
    #[inline]
    fn available(&self) -> usize {
        self.0.available()
    }
}

/// How a NIC's queues are set up.
#[derive(Clone, Debug, Default)]
pub struct NicConfig {
    /// Transmit queues to open; `None`: all that the device has.
    pub queues: Option<u16>,
    /// Each transmit queue.
    pub tx: TxConfig,
    /// Each receive queue.
    pub rx: RxConfig,
    /// How patient the watchdog of the queues is.
    pub watchdog: WatchdogConfig,
}

/// An open device with its queues.
#[derive(Debug)]
pub struct Nic<F: PciFunction> {
    device: Device<F>,
    tx: Vec<TxQueue>,
    rx: Vec<RxQueue>,
    flows: FlowTable,
    chunks: ChunkMap,
    limits: TxLimits,
    receive_hashing: bool,
    fault: Option<DriverError>,
    pacing: PacingMeter,
    /// Queue whose turn it is, so that none starves another under a budget.
    next_rx: usize,
    watchdog: Watchdog,
    /// The last wait ended without an interrupt.
    unannounced: bool,
}

impl<F: PciFunction> Nic<F> {
    /// Opens queues on `device`, spreads received flows over them, and starts it.
    ///
    /// # Errors
    /// [`DriverError`].
    pub fn start(
        mut device: Device<F>,
        config: &NicConfig,
        chunks: ChunkMap,
    ) -> Result<Nic<F>, DriverError> {
        let info = *device.info();
        let queues = config.queues.unwrap_or(info.queues);
        let mut tx = Vec::with_capacity(usize::from(queues));
        let mut rx = Vec::with_capacity(usize::from(queues));
        for q in (0..queues).map(QueueId) {
            tx.push(device.open_tx(q, config.tx)?);
            rx.push(device.open_rx(q, config.rx)?);
        }
        let receive_hashing = info.features.rss() == 1;
        if receive_hashing {
            device.set_rss(&RSS_KEY_DEFAULT, &Device::<F>::rss_round_robin(queues))?;
        }
        let flows = device.flow_table();
        device.start()?;
        let watchdog = Watchdog::new(config.watchdog, tx.len(), device.now());
        let limits = TxLimits {
            gso_max: info.max_payload,
            gso_max_segs: u32::from(u16::MAX),
            max_segment: info.max_segment,
            fragments: FRAGMENTS_MAX,
            queues,
            paces: info.features.pacing() == 1,
            tso: info.features.tso() == 1,
        };
        Ok(Nic {
            device,
            tx,
            rx,
            flows,
            chunks,
            limits,
            receive_hashing,
            fault: None,
            pacing: PacingMeter::default(),
            next_rx: 0,
            watchdog,
            unannounced: false,
        })
    }

    /// The device.
    pub fn device(&mut self) -> &mut Device<F> {
        &mut self.device
    }

    /// The transmit queues.
    pub fn tx_queues(&self) -> &[TxQueue] {
        &self.tx
    }

    /// The receive queues.
    pub fn rx_queues(&self) -> &[RxQueue] {
        &self.rx
    }

    /// The flow table.
    pub const fn flows(&self) -> &FlowTable {
        &self.flows
    }

    /// Whether received frames carry a hash.
    pub const fn receive_hashing(&self) -> bool {
        self.receive_hashing
    }

    /// Whether a queue is open here.
    ///
    /// # Errors
    /// [`DriverError::NoSuchQueue`].
    pub const fn check_queue(&self, queue: QueueId) -> Result<(), DriverError> {
        let queues = self.limits.queues;
        if queue.0 < queues {
            return Ok(());
        }
        Err(DriverError::NoSuchQueue { queue, queues })
    }

    /// Changes settings of a transmit queue, from the device's next decision on.
    ///
    /// # Errors
    /// [`DriverError`].
    pub fn retune(
        &mut self,
        queue: QueueId,
        change: impl FnOnce(&mut TxConfig),
    ) -> Result<(), DriverError> {
        self.check_queue(queue)?;
        let tx = &mut self.tx[queue.index()];
        let mut config = *tx.config();
        change(&mut config);
        self.device.retune_tx(tx, &config)
    }

    /// Takes every burst of a transmit queue out of the device, gives each to `each`,
    /// and starts the queue afresh.
    ///
    /// # Errors
    /// [`DriverError`].
    pub fn reset_queue(
        &mut self,
        queue: QueueId,
        mut each: impl FnMut(&TxCompletion),
    ) -> Result<(), DriverError> {
        self.check_queue(queue)?;
        let tx = &mut self.tx[queue.index()];
        self.device
            .reset_tx(tx, &mut self.flows, |c| each(&completion(c)))
    }

    /// Bursts whose rate the wire cannot carry are no measure of pacing.
    pub const fn set_line_rate(&mut self, line: ByteRate) {
        self.pacing.set_line_rate(line);
    }

    /// How well the NIC kept the rates it was given.
    pub const fn pacing(&self) -> &PacingMeter {
        &self.pacing
    }

    /// Waits for completions, until `deadline`, or until the watchdog wants to look.
    ///
    /// # Errors
    /// [`DriverError::Bus`]: the device is gone.
    pub fn wait(&mut self, deadline: Option<Nanos>) -> Result<Wake, DriverError> {
        let by_itself = self.device.function().runs_by_itself();
        let look = self.watchdog.next(&self.tx, by_itself);
        let until = match (deadline, look) {
            (Some(d), Some(l)) => Some(d.min(l)),
            (d, l) => d.or(l),
        };
        let (tx, rx) = (&self.tx, &self.rx);
        let wake = self.device.wait_for(until, || {
            tx.iter().any(TxQueue::has_completion) || rx.iter().any(RxQueue::has_completion)
        })?;
        self.unannounced = wake != Wake::Completion;
        Ok(wake)
    }

    /// Lets the watchdog look; before anything is reaped.
    pub fn look(&mut self, now: Nanos) {
        let unannounced = std::mem::take(&mut self.unannounced);
        self.watchdog.look(now, &self.tx, &self.rx, unannounced);
    }

    /// Resets the queues that stand still; after everything was reaped.
    ///
    /// # Errors
    /// [`DriverError`]: a queue cannot be reset alone.
    pub fn revive(
        &mut self,
        now: Nanos,
        mut each: impl FnMut(&TxCompletion),
    ) -> Result<(), DriverError> {
        while let Some(q) = self.watchdog.stalled(now, &self.tx) {
            let (dog, flows) = (&mut self.watchdog, &mut self.flows);
            let done = |c: &tsonic_driver::TxCompletion| each(&completion(c));
            dog.reset(&mut self.device, &mut self.tx[q], flows, done)?;
        }
        Ok(())
    }

    /// What the watchdog has done for a queue pair.
    pub fn watch_stats(&self, queue: usize) -> WatchStats {
        self.watchdog.stats(queue)
    }

    /// What the watchdog has done for all of them.
    pub fn watched(&self) -> WatchStats {
        let each = (0..self.tx.len()).map(|q| self.watchdog.stats(q));
        each.fold(WatchStats::default(), |mut sum, s| {
            sum.lost_interrupts += s.lost_interrupts;
            sum.tx_timeouts += s.tx_timeouts;
            sum
        })
    }

    /// Gives up every burst after the device has gone: each is handed to `each`, once.
    pub fn abandon(&mut self, mut each: impl FnMut(&TxCompletion)) {
        for tx in &mut self.tx {
            Device::<F>::abandon(tx, &mut self.flows, |c| each(&completion(c)));
        }
    }

    /// What went wrong at the bus since the last call, if anything.
    pub fn take_fault(&mut self) -> Option<DriverError> {
        self.fault.take()
    }
}

impl<F: PciFunction> TxPort for Nic<F> {
    fn limits(&self) -> TxLimits {
        self.limits
    }

    fn queue_state(&self, queue: QueueId) -> QueueState {
        let tx = self.tx.get(queue.index());
        QueueState {
            free: tx.map_or(0, TxQueue::room),
            bql: tx
                .and_then(TxQueue::bql_state)
                .map(|bql| (bql.limit, bql.inflight)),
        }
    }

    fn allocate_flow(&mut self) -> Option<FlowSlot> {
        self.flows.allocate()
    }

    fn free_flow(&mut self, flow: FlowSlot) {
        self.flows.release(flow);
    }

    fn post(&mut self, burst: &Burst<'_>) -> Result<(), PostError> {
        let down = PostError::QueueDown(burst.queue);
        let tx = self.tx.get_mut(burst.queue.index()).ok_or(down)?;
        let mut fragments = [Fragment::default(); FRAGMENTS_MAX];
        let refused = PostError::Refused(Status::TooManyFragments.code());
        let places = fragments.get_mut(..burst.fragments.len()).ok_or(refused)?;
        for (place, r) in places.iter_mut().zip(burst.fragments) {
            let outside = PostError::Refused(Status::LengthMismatch.code());
            *place = self
                .chunks
                .fragment(r.chunk.0, r.offset, r.len)
                .ok_or(outside)?;
        }
        let posted = tx.post(
            &mut self.flows,
            &TxBurst {
                kind: match burst.kind {
                    BurstKind::Raw => Kind::Raw,
                    BurstKind::Csum => Kind::Csum,
                    BurstKind::Tso => Kind::Tso,
                },
                ipv6: burst.ipv6,
                ip_id_fixed: burst.ip_id_fixed,
                cwr_all: burst.cwr_all,
                complete_now: burst.complete_now,
                l2_len: burst.l2_len,
                l3_len: burst.l3_len,
                l4_len: burst.l4_len,
                mss: burst.mss,
                header: burst.header,
                fragments: places,
                flow: burst.flow,
                rate: burst.rate,
                // The engine's own limit (TSQ) is the one that holds bursts back.
                flow_limit: None,
                launch: burst.launch,
                token: burst.token,
            },
        );
        posted.map_err(|e| match e {
            DriverPostError::Backpressure(q) => PostError::Backpressure(q),
            DriverPostError::QueueDown(q) => PostError::QueueDown(q),
            DriverPostError::Refused(status) => PostError::Refused(status.code()),
        })
    }

    fn flush(&mut self) {
        for tx in &mut self.tx {
            if let Err(e) = tx.flush(self.device.function()) {
                self.fault = Some(e);
            }
        }
    }
}

/// A completion of the driver, as the engine's.
#[inline]
const fn completion(c: &tsonic_driver::TxCompletion) -> TxCompletion {
    TxCompletion {
        token: c.token,
        queue: c.queue,
        flow: c.flow,
        status: c.status_code,
        first_departure: c.first_departure,
        last_departure: c.last_departure,
        wire_bytes: c.wire_bytes,
        segments: c.segments,
        congested: c.congested,
        throttled: c.throttled,
        wake: c.wake,
    }
}

const fn verdict(v: ChecksumVerdict) -> Checksum {
    match v {
        ChecksumVerdict::None => Checksum::None,
        ChecksumVerdict::Ok => Checksum::Ok,
        ChecksumVerdict::Bad => Checksum::Bad,
    }
}

impl<F: PciFunction> RxPort for Nic<F> {
    fn reap<C: FnMut(&TxCompletion)>(&mut self, budget: usize, mut each: C) -> usize {
        let mut left = budget;
        for tx in &mut self.tx {
            left -= tx.reap(&mut self.flows, left, |c| {
                self.pacing.record(c);
                each(&completion(c));
            });
        }
        budget - left
    }

    fn receive<C: FnMut(&[u8], &RxMeta)>(&mut self, budget: usize, mut each: C) -> usize {
        let mut left = budget;
        let (later, first) = self.rx.split_at_mut(self.next_rx);
        for rx in first.iter_mut().chain(later) {
            left -= rx.receive(left, |frame, m| {
                each(
                    frame,
                    &RxMeta {
                        queue: m.queue,
                        arrival: m.arrival,
                        ip_checksum: verdict(m.ip_checksum),
                        l4_checksum: verdict(m.l4_checksum),
                        hash: m.hash,
                    },
                );
            });
            if let Err(e) = rx.refill(self.device.function()) {
                self.fault = Some(e);
            }
        }
        self.next_rx += 1;
        if self.next_rx >= self.rx.len() {
            self.next_rx = 0;
        }
        budget - left
    }
}
