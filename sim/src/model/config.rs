// SPDX-License-Identifier: MIT OR Apache-2.0
//! Build constants of the model: what is a generic in the logic.

use tsonic_regs::check::BuildLimits;
use tsonic_regs::limits::{
    FLOW_SLOTS_MAX, HEADER_MAX, LATENESS_DEBT_FRAMES, MAX_SEGMENT_DEFAULT, QUEUES_MAX, RX_FRAME_MAX,
};
use tsonic_regs::registers::Features;
use tsonic_types::TickRate;

/// Largest `max_segment`: what an IP packet can hold.
pub const MAX_SEGMENT_LIMIT: u32 = 65_535;

/// Build constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelConfig {
    /// Queue pairs, 1 to 256.
    pub queues: usize,
    /// Rows of the flow table with slot 0, 1 to 65,536.
    pub flow_slots: usize,
    /// Largest payload of a segment in bytes, 1 to 65,535.
    pub max_segment: u32,
    /// Bits of the data path: 64, 128, 256 or 512.
    pub width: u32,
    /// Frequency of the clock.
    pub tick_rate: TickRate,
    /// Bursts in the device at most. Half of them are dealt out evenly to the
    /// queues, so that no queue can shut another out.
    pub contexts: usize,
    /// Wire bytes that may be granted and not departed (two segments are in any
    /// case). More than the read latency takes only adds to the pacer's jitter.
    pub payload_window: usize,
    /// Segments that may be granted and not departed.
    pub payload_jobs: usize,
    /// Ticks from one grant to the next.
    pub decision_ticks: u64,
    /// Ticks from a segment's last payload byte to its frame's first byte.
    pub segment_latency: u64,
    /// Longest received frame that is stored.
    pub rx_frame_max: usize,
    /// Bytes of received frames that are stored.
    pub rx_store: usize,
    /// BUILD_HASH register.
    pub build_hash: u32,
}

impl Default for ModelConfig {
    fn default() -> Self {
        ModelConfig {
            queues: 32,
            flow_slots: 1024,
            max_segment: MAX_SEGMENT_DEFAULT as u32,
            width: 64,
            tick_rate: DEFAULT_TICK_RATE,
            contexts: 2048,
            payload_window: 4_096,
            payload_jobs: 64,
            decision_ticks: 4,
            segment_latency: 12,
            rx_frame_max: RX_FRAME_MAX,
            rx_store: 65_536,
            build_hash: 0x6d6f_6465,
        }
    }
}

const DEFAULT_TICK_RATE: TickRate = match TickRate::new(125_000_000) {
    Some(rate) => rate,
    None => unreachable!(),
};

impl ModelConfig {
    /// The same with every constant moved into its range.
    #[must_use]
    pub fn bounded(mut self) -> ModelConfig {
        self.queues = self.queues.clamp(1, QUEUES_MAX);
        self.flow_slots = self.flow_slots.clamp(1, FLOW_SLOTS_MAX);
        self.max_segment = self.max_segment.clamp(1, MAX_SEGMENT_LIMIT);
        self.width = self.width.clamp(64, 512) / 8 * 8;
        self.contexts = self.contexts.max(2 * self.queues);
        self.payload_jobs = self.payload_jobs.max(2);
        self.decision_ticks = self.decision_ticks.max(1);
        self.rx_frame_max = self.rx_frame_max.clamp(64, 65_535);
        self.rx_store = self.rx_store.max(2 * self.rx_frame_max);
        self
    }

    /// FEATURES register.
    pub fn features(&self) -> Features {
        let mut f = Features(0);
        f.set_tso(1);
        f.set_uso(1);
        f.set_pacing(1);
        f.set_launch_time(1);
        f.set_bql(1);
        f.set_cn(1);
        f.set_flow_limit(1);
        f.set_rss(1);
        f.set_msix(1);
        f
    }

    /// What descriptors are checked against.
    pub fn limits(&self) -> BuildLimits {
        BuildLimits {
            features: self.features(),
            flow_slots: self.flow_slots as u32,
            max_segment: self.max_segment,
        }
    }

    /// Bytes the data path moves a tick.
    pub const fn bytes_per_tick(&self) -> usize {
        (self.width / 8) as usize
    }

    /// Ticks that `bytes` take on the data path.
    pub const fn beats(&self, bytes: usize) -> u64 {
        bytes.div_ceil(self.bytes_per_tick()) as u64
    }

    /// LATENESS_DEBT after reset.
    pub fn lateness_debt(&self) -> u32 {
        let frame = self.beats(self.max_segment as usize + HEADER_MAX);
        (LATENESS_DEBT_FRAMES as u64 * frame).min(u64::from(u32::MAX)) as u32
    }
}
