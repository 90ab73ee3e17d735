// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding a set bit, and the way back from an index to one.

use rust_hdl::prelude::*;

/// Index of the lowest (default) or highest set bit of N, in L = log2 bits
/// rounded up.
#[derive(LogicBlock)]
pub struct FirstOne<const N: usize, const L: usize> {
    /// Bits to look at.
    pub data: Signal<In, Bits<N>>,
    /// Some bit is set.
    pub found: Signal<Out, bool>,
    /// Index of the bit; 0 when none is set.
    pub index: Signal<Out, Bits<L>>,
    /// That bit alone.
    pub one_hot: Signal<Out, Bits<N>>,
    _highest: bool,
}

impl<const N: usize, const L: usize> Default for FirstOne<N, L> {
    /// The lowest set bit.
    fn default() -> Self {
        Self::lowest()
    }
}

fn check_index(n: usize, l: usize) {
    assert!(
        n > 1 && l == clog2(n),
        "widths of an index: {l} bits for {n}"
    );
}

/// One-hot bits to an index: an OR per bit of the index, which is as flat as
/// it gets.
fn encode(n: usize, l: usize, from: &str, to: &str) -> String {
    let bits: Vec<_> = (0..l)
        .rev()
        .map(|bit| {
            let terms: Vec<_> = (0..n)
                .filter(|i| i >> bit & 1 == 1)
                .map(|i| format!("{from}[{i}]"))
                .collect();
            format!("({})", terms.join(" | "))
        })
        .collect();
    format!("{to} = {{{}}};\n", bits.join(", "))
}

impl<const N: usize, const L: usize> FirstOne<N, L> {
    fn new(highest: bool) -> Self {
        check_index(N, L);
        Self {
            data: Default::default(),
            found: Default::default(),
            index: Default::default(),
            one_hot: Default::default(),
            _highest: highest,
        }
    }

    /// Finds the lowest set bit.
    ///
    /// # Panics
    /// When N is below 2 or L is not log2 N rounded up.
    pub fn lowest() -> Self {
        Self::new(false)
    }

    /// Finds the highest set bit (leading one).
    ///
    /// # Panics
    /// When N is below 2 or L is not log2 N rounded up.
    pub fn highest() -> Self {
        Self::new(true)
    }
}

impl<const N: usize, const L: usize> Logic for FirstOne<N, L> {
    fn update(&mut self) {
        let data = self.data.val();
        let index = if self._highest {
            (0..N).rev().find(|&i| data.get_bit(i))
        } else {
            (0..N).find(|&i| data.get_bit(i))
        };
        self.found.next = index.is_some();
        self.index.next = index.unwrap_or(0).to_bits();
        self.one_hot.next = match index {
            Some(i) => Bits::<N>::default().replace_bit(i, true),
            None => Bits::default(),
        };
    }
    fn connect(&mut self) {
        self.found.connect();
        self.index.connect();
        self.one_hot.connect();
    }
    fn hdl(&self) -> Verilog {
        let only = if self._highest {
            // Reversed, so that the carry chain finds the lowest.
            let reversed: Vec<_> = (0..N).map(|i| format!("data[{i}]")).collect();
            let back: Vec<_> = (0..N).map(|i| format!("lowest[{i}]")).collect();
            format!(
                "wire [{top}:0] reversed = {{{}}};\n\
                 wire [{top}:0] lowest = reversed & (~reversed + {N}'d1);\n\
                 wire [{top}:0] only = {{{}}};\n",
                reversed.join(", "),
                back.join(", "),
                top = N - 1
            )
        } else {
            format!("wire [{}:0] only = data & (~data + {N}'d1);\n", N - 1)
        };
        Verilog::Custom(format!(
            "{only}always @(*) begin\n  found = (|data);\n  one_hot = only;\n  {}end\n",
            encode(N, L, "only", "index")
        ))
    }
}

/// First set bit after `last`, cyclically: bit `last` itself comes last.
#[derive(LogicBlock)]
pub struct RoundRobin<const N: usize, const L: usize> {
    /// Requests.
    pub requests: Signal<In, Bits<N>>,
    /// The request granted last; at most N - 1.
    pub last: Signal<In, Bits<L>>,
    /// Some request is there.
    pub found: Signal<Out, bool>,
    /// Its index; 0 when none is there.
    pub index: Signal<Out, Bits<L>>,
    /// That request alone.
    pub one_hot: Signal<Out, Bits<N>>,
}

impl<const N: usize, const L: usize> Default for RoundRobin<N, L> {
    /// # Panics
    /// When N is below 2 or L is not log2 N rounded up.
    fn default() -> Self {
        check_index(N, L);
        Self {
            requests: Default::default(),
            last: Default::default(),
            found: Default::default(),
            index: Default::default(),
            one_hot: Default::default(),
        }
    }
}

impl<const N: usize, const L: usize> Logic for RoundRobin<N, L> {
    fn update(&mut self) {
        let requests = self.requests.val();
        let last = self.last.val().index();
        let index = (last + 1..N).chain(0..N).find(|&i| requests.get_bit(i));
        self.found.next = index.is_some();
        self.index.next = index.unwrap_or(0).to_bits();
        self.one_hot.next = match index {
            Some(i) => Bits::<N>::default().replace_bit(i, true),
            None => Bits::default(),
        };
    }
    fn connect(&mut self) {
        self.found.connect();
        self.index.connect();
        self.one_hot.connect();
    }
    fn hdl(&self) -> Verilog {
        let after: Vec<_> = (0..N).rev().map(|i| format!("({L}'d{i} > last)")).collect();
        Verilog::Custom(format!(
            "\
wire [{top}:0] after = {{{after}}};
wire [{top}:0] upper = requests & after;
wire [{top}:0] pool = (|upper) ? upper : requests;
wire [{top}:0] only = pool & (~pool + {N}'d1);
always @(*) begin
  found = (|requests);
  one_hot = only;
  {index}end
",
            top = N - 1,
            after = after.join(", "),
            index = encode(N, L, "only", "index")
        ))
    }
}

/// Index to one-hot; nothing is set while `enable` is low or when `index` is N
/// or more.
#[derive(LogicBlock, Default)]
pub struct OneHot<const L: usize, const N: usize> {
    /// Index.
    pub index: Signal<In, Bits<L>>,
    /// Sets the bit.
    pub enable: Signal<In, bool>,
    /// Bit `index` of N.
    pub out: Signal<Out, Bits<N>>,
}

impl<const L: usize, const N: usize> Logic for OneHot<L, N> {
    fn update(&mut self) {
        let index = self.index.val().index();
        let mut out = Bits::<N>::default();
        if self.enable.val() && index < N {
            out = out.replace_bit(index, true);
        }
        self.out.next = out;
    }
    fn connect(&mut self) {
        self.out.connect();
    }
    fn hdl(&self) -> Verilog {
        let bits: Vec<_> = (0..N)
            .rev()
            .map(|i| {
                if L < 32 && i >> L != 0 {
                    "1'b0".to_string()
                } else {
                    format!("(enable & (index == {L}'d{i}))")
                }
            })
            .collect();
        Verilog::Custom(format!("always @(*) out = {{{}}};\n", bits.join(", ")))
    }
}
