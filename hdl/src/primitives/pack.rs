// SPDX-License-Identifier: MIT OR Apache-2.0
//! Concatenation, splitting and zero extension: what `#[hdl_gen]` cannot say,
//! or says with another meaning in Verilog than in Rust.

use super::bits::{place, take};
use rust_hdl::prelude::*;
use std::array::from_fn;

/// Zero-extends `data` from N to M bits, or drops the bits above M.
///
/// Feed arithmetic through it instead of `bit_cast`: its input has exactly N
/// bits, so a sum wraps there as it does in Rust.
#[derive(LogicBlock, Default)]
pub struct Zext<const N: usize, const M: usize> {
    /// Input.
    pub data: Signal<In, Bits<N>>,
    /// Output.
    pub out: Signal<Out, Bits<M>>,
}

impl<const N: usize, const M: usize> Logic for Zext<N, M> {
    fn update(&mut self) {
        self.out.next = bit_cast::<M, N>(self.data.val());
    }
    fn connect(&mut self) {
        self.out.connect();
    }
    fn hdl(&self) -> Verilog {
        let value = if M > N {
            format!("{{{}'b0, data}}", M - N)
        } else if M < N {
            format!("data[{}:0]", M - 1)
        } else {
            "data".into()
        };
        Verilog::Custom(format!("always @(*) out = {value};\n"))
    }
}

macro_rules! pack {
    ($pack:ident, $unpack:ident, $count:literal: $($n:ident $i:ident $o:ident),+) => {
        #[doc = concat!("Concatenates ", stringify!($count), " fields, the first at the low bits.")]
        #[derive(LogicBlock)]
        pub struct $pack<$(const $n: usize,)+ const W: usize> {
            $(#[doc = "A field."] pub $i: Signal<In, Bits<$n>>,)+
            /// All fields.
            pub out: Signal<Out, Bits<W>>,
        }
        impl<$(const $n: usize,)+ const W: usize> Default for $pack<$($n,)+ W> {
            /// # Panics
            /// When W is not the sum of the fields' widths.
            fn default() -> Self {
                assert_eq!(0 $(+ $n)+, W, "width of a pack");
                Self { $($i: Default::default(),)+ out: Default::default() }
            }
        }
        impl<$(const $n: usize,)+ const W: usize> Logic for $pack<$($n,)+ W> {
            #[allow(unused_assignments)]
            fn update(&mut self) {
                let mut word = Bits::<W>::default();
                let mut at = 0;
                $(word = word | place::<$n, W>(self.$i.val(), at); at += $n;)+
                self.out.next = word;
            }
            fn connect(&mut self) {
                self.out.connect();
            }
            fn hdl(&self) -> Verilog {
                let mut fields = vec![$(stringify!($i)),+];
                fields.reverse();
                Verilog::Custom(format!("always @(*) out = {{{}}};\n", fields.join(", ")))
            }
        }

        #[doc = concat!("Splits a word into ", stringify!($count), " fields, the first from the low bits.")]
        #[derive(LogicBlock)]
        pub struct $unpack<$(const $n: usize,)+ const W: usize> {
            /// All fields.
            pub data: Signal<In, Bits<W>>,
            $(#[doc = "A field."] pub $o: Signal<Out, Bits<$n>>,)+
        }
        impl<$(const $n: usize,)+ const W: usize> Default for $unpack<$($n,)+ W> {
            /// # Panics
            /// When W is not the sum of the fields' widths.
            fn default() -> Self {
                assert_eq!(0 $(+ $n)+, W, "width of an unpack");
                Self { data: Default::default(), $($o: Default::default(),)+ }
            }
        }
        impl<$(const $n: usize,)+ const W: usize> Logic for $unpack<$($n,)+ W> {
            #[allow(unused_assignments)]
            fn update(&mut self) {
                let word = self.data.val();
                let mut at = 0;
                $(self.$o.next = take::<W, $n>(word, at); at += $n;)+
            }
            fn connect(&mut self) {
                $(self.$o.connect();)+
            }
            fn hdl(&self) -> Verilog {
                let mut fields = vec![$(stringify!($o)),+];
                fields.reverse();
                Verilog::Custom(format!("always @(*) {{{}}} = data;\n", fields.join(", ")))
            }
        }
    };
}

pack!(Pack2, Unpack2, 2: A i0 o0, B i1 o1);
pack!(Pack3, Unpack3, 3: A i0 o0, B i1 o1, C i2 o2);
pack!(Pack4, Unpack4, 4: A i0 o0, B i1 o1, C i2 o2, D i3 o3);
pack!(Pack5, Unpack5, 5: A i0 o0, B i1 o1, C i2 o2, D i3 o3, E i4 o4);
pack!(Pack6, Unpack6, 6: A i0 o0, B i1 o1, C i2 o2, D i3 o3, E i4 o4, F i5 o5);
pack!(Pack7, Unpack7, 7: A i0 o0, B i1 o1, C i2 o2, D i3 o3, E i4 o4, F i5 o5, G i6 o6);
pack!(Pack8, Unpack8, 8: A i0 o0, B i1 o1, C i2 o2, D i3 o3, E i4 o4, F i5 o5, G i6 o6, H i7 o7);

/// Concatenates N fields of W bits into T = N W bits, `i[0]` at the low bits.
#[derive(LogicBlock)]
pub struct PackArray<const W: usize, const N: usize, const T: usize> {
    /// Fields.
    pub i: [Signal<In, Bits<W>>; N],
    /// All fields.
    pub out: Signal<Out, Bits<T>>,
}

impl<const W: usize, const N: usize, const T: usize> Default for PackArray<W, N, T> {
    /// # Panics
    /// When T is not N W.
    fn default() -> Self {
        assert_eq!(W * N, T, "width of a pack");
        Self {
            i: from_fn(|_| Default::default()),
            out: Default::default(),
        }
    }
}

impl<const W: usize, const N: usize, const T: usize> Logic for PackArray<W, N, T> {
    fn update(&mut self) {
        let mut word = Bits::<T>::default();
        for (n, field) in self.i.iter().enumerate() {
            word = word | place::<W, T>(field.val(), n * W);
        }
        self.out.next = word;
    }
    fn connect(&mut self) {
        self.out.connect();
    }
    fn hdl(&self) -> Verilog {
        let fields: Vec<_> = (0..N).rev().map(|n| format!("i${n}")).collect();
        Verilog::Custom(format!("always @(*) out = {{{}}};\n", fields.join(", ")))
    }
}

/// Splits T = N W bits into N fields of W bits, `o[0]` from the low bits.
#[derive(LogicBlock)]
pub struct UnpackArray<const W: usize, const N: usize, const T: usize> {
    /// All fields.
    pub data: Signal<In, Bits<T>>,
    /// Fields.
    pub o: [Signal<Out, Bits<W>>; N],
}

impl<const W: usize, const N: usize, const T: usize> Default for UnpackArray<W, N, T> {
    /// # Panics
    /// When T is not N W.
    fn default() -> Self {
        assert_eq!(W * N, T, "width of an unpack");
        Self {
            data: Default::default(),
            o: from_fn(|_| Default::default()),
        }
    }
}

impl<const W: usize, const N: usize, const T: usize> Logic for UnpackArray<W, N, T> {
    fn update(&mut self) {
        let word = self.data.val();
        for (n, field) in self.o.iter_mut().enumerate() {
            field.next = take::<T, W>(word, n * W);
        }
    }
    fn connect(&mut self) {
        for field in &mut self.o {
            field.connect();
        }
    }
    fn hdl(&self) -> Verilog {
        let fields: Vec<_> = (0..N).rev().map(|n| format!("o${n}")).collect();
        Verilog::Custom(format!("always @(*) {{{}}} = data;\n", fields.join(", ")))
    }
}
