// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memories. The contents at power-up are zero in simulation and are not to be
//! relied on in hardware: a block that needs them cleared clears them.

use super::bits::range;
use rust_hdl::prelude::*;

/// Simple dual-port memory of 2^A words: one write port, one synchronous read
/// port, in block RAM.
///
/// A read must not hit a write of the same cycle: block RAM then returns either
/// word. The model panics; under Verilator the read returns the inverted word,
/// so that a test notices. `read_data` holds while `read_enable` is low.
#[derive(LogicBlock)]
pub struct Ram<D: Synth, const A: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Writes at the next edge.
    pub write_enable: Signal<In, bool>,
    /// Word to write.
    pub write_address: Signal<In, Bits<A>>,
    /// Data to write.
    pub write_data: Signal<In, D>,
    /// Reads at the next edge.
    pub read_enable: Signal<In, bool>,
    /// Word to read.
    pub read_address: Signal<In, Bits<A>>,
    /// Data read by the last enabled read, from the cycle after it.
    pub read_data: Signal<Out, D>,
    _mem: Vec<D>,
}

impl<D: Synth, const A: usize> Default for Ram<D, A> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            write_enable: Default::default(),
            write_address: Default::default(),
            write_data: Default::default(),
            read_enable: Default::default(),
            read_address: Default::default(),
            read_data: Default::default(),
            _mem: vec![D::default(); 1 << A],
        }
    }
}

impl<D: Synth, const A: usize> Logic for Ram<D, A> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            let (write, read) = (self.write_enable.val(), self.read_enable.val());
            let write_address = self.write_address.val().index();
            let read_address = self.read_address.val().index();
            assert!(
                !(write && read && write_address == read_address),
                "Ram: a read hits the write of word {write_address} in the same cycle"
            );
            if read {
                self.read_data.next = self._mem[read_address];
            }
            if write {
                self._mem[write_address] = self.write_data.val();
            }
        }
    }
    fn connect(&mut self) {
        self.read_data.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "\
(* no_rw_check *) reg {range} mem [0:{last}];
initial read_data = {bits}'b0;
always @(posedge clock) begin
  if (write_enable) mem[write_address] <= write_data;
end
always @(posedge clock) begin
  if (read_enable) begin
`ifdef VERILATOR
    read_data <= (write_enable && (write_address == read_address)) ? ~mem[read_address] : mem[read_address];
`else
    read_data <= mem[read_address];
`endif
  end
end
",
            range = range(D::BITS),
            bits = D::BITS,
            last = (1usize << A) - 1
        ))
    }
}

/// [`Ram`] of 2^A words of W = 8 B bits with an enable per byte.
#[derive(LogicBlock)]
pub struct RamBe<const A: usize, const W: usize, const B: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Bytes to write at the next edge.
    pub write_strobe: Signal<In, Bits<B>>,
    /// Word to write.
    pub write_address: Signal<In, Bits<A>>,
    /// Data to write.
    pub write_data: Signal<In, Bits<W>>,
    /// Reads at the next edge.
    pub read_enable: Signal<In, bool>,
    /// Word to read.
    pub read_address: Signal<In, Bits<A>>,
    /// Data read by the last enabled read, from the cycle after it.
    pub read_data: Signal<Out, Bits<W>>,
    _mem: Vec<Bits<W>>,
}

impl<const A: usize, const W: usize, const B: usize> Default for RamBe<A, W, B> {
    /// # Panics
    /// When W is not 8 B, or B is below 2.
    fn default() -> Self {
        assert!(W == 8 * B && B > 1, "widths of a byte-enable memory");
        Self {
            clock: Default::default(),
            write_strobe: Default::default(),
            write_address: Default::default(),
            write_data: Default::default(),
            read_enable: Default::default(),
            read_address: Default::default(),
            read_data: Default::default(),
            _mem: vec![Bits::default(); 1 << A],
        }
    }
}

impl<const A: usize, const W: usize, const B: usize> Logic for RamBe<A, W, B> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            let (strobe, read) = (self.write_strobe.val(), self.read_enable.val());
            let write_address = self.write_address.val().index();
            let read_address = self.read_address.val().index();
            assert!(
                !(strobe.any() && read && write_address == read_address),
                "RamBe: a read hits the write of word {write_address} in the same cycle"
            );
            if read {
                self.read_data.next = self._mem[read_address];
            }
            let data = self.write_data.val();
            for byte in 0..B {
                if strobe.get_bit(byte) {
                    self._mem[write_address].set_bits::<8>(8 * byte, data.get_bits::<8>(8 * byte));
                }
            }
        }
    }
    fn connect(&mut self) {
        self.read_data.connect();
    }
    fn hdl(&self) -> Verilog {
        let mut writes = String::new();
        for byte in 0..B {
            let (high, low) = (8 * byte + 7, 8 * byte);
            writes += &format!(
                "  if (write_strobe[{byte}]) mem[write_address][{high}:{low}] <= write_data[{high}:{low}];\n"
            );
        }
        Verilog::Custom(format!(
            "\
(* no_rw_check *) reg {range} mem [0:{last}];
initial read_data = {W}'b0;
always @(posedge clock) begin
{writes}end
always @(posedge clock) begin
  if (read_enable) begin
`ifdef VERILATOR
    read_data <= ((|write_strobe) && (write_address == read_address)) ? ~mem[read_address] : mem[read_address];
`else
    read_data <= mem[read_address];
`endif
  end
end
",
            range = range(W),
            last = (1usize << A) - 1
        ))
    }
}

macro_rules! lut_ram {
    ($(#[$doc:meta])* $name:ident, $($address:ident $data:ident),+) => {
        $(#[$doc])*
        #[derive(LogicBlock)]
        pub struct $name<D: Synth, const A: usize> {
            /// Clock.
            pub clock: Signal<In, Clock>,
            /// Writes at the next edge.
            pub write_enable: Signal<In, bool>,
            /// Word to write.
            pub write_address: Signal<In, Bits<A>>,
            /// Data to write.
            pub write_data: Signal<In, D>,
            $(
                /// Word to read.
                pub $address: Signal<In, Bits<A>>,
                /// Its data, in the same cycle; a write shows in the cycle after it.
                pub $data: Signal<Out, D>,
            )+
            _mem: Vec<D>,
        }

        impl<D: Synth, const A: usize> Default for $name<D, A> {
            fn default() -> Self {
                Self {
                    clock: Default::default(),
                    write_enable: Default::default(),
                    write_address: Default::default(),
                    write_data: Default::default(),
                    $($address: Default::default(), $data: Default::default(),)+
                    _mem: vec![D::default(); 1 << A],
                }
            }
        }

        impl<D: Synth, const A: usize> Logic for $name<D, A> {
            fn update(&mut self) {
                if self.clock.pos_edge() && self.write_enable.val() {
                    self._mem[self.write_address.val().index()] = self.write_data.val();
                }
                $(self.$data.next = self._mem[self.$address.val().index()];)+
            }
            fn connect(&mut self) {
                $(self.$data.connect();)+
            }
            fn hdl(&self) -> Verilog {
                let range = range(D::BITS);
                let mut code = format!(
                    "\
(* ram_style = \"distributed\" *) reg {range} mem [0:{last}];
always @(posedge clock) begin
  if (write_enable) mem[write_address] <= write_data;
end
",
                    last = (1usize << A) - 1
                );
                $(
                    code += &format!(
                        "wire {range} {data}_word = mem[{address}];\nalways @(*) {data} = {data}_word;\n",
                        data = stringify!($data),
                        address = stringify!($address)
                    );
                )+
                Verilog::Custom(code)
            }
        }
    };
}

lut_ram!(
    /// Small memory of 2^A words, one write port, one asynchronous read port, in
    /// distributed RAM (ECP5: TRELLIS_DPR16X4). A read of the word being written
    /// sees the old one.
    LutRam, read_address read_data
);
lut_ram!(
    /// [`LutRam`] with two read ports (the memory is there twice).
    LutRam2, read_address0 read_data0, read_address1 read_data1
);
