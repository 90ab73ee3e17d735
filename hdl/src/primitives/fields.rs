// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words of the contract, taken apart and put together: the places of the
//! fields come from `tsonic-regs` and stand nowhere else.

/// Declares a block that splits a word into fields: output `field` of `bits`
/// bits from the place of the `regs` field. Combinational.
macro_rules! unpack_word {
    ($(#[$doc:meta])* $name:ident, $word:literal { $($field:ident : $bits:literal = $place:path),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(LogicBlock, Default)]
        pub struct $name {
            /// The word.
            pub data: Signal<In, Bits<$word>>,
            $(#[doc = concat!("`", stringify!($place), "`.")] pub $field: Signal<Out, Bits<$bits>>,)+
        }
        const _: () = { $(assert!($place.width() == $bits && $place.msb < $word);)+ };
        impl Logic for $name {
            fn update(&mut self) {
                let word = self.data.val();
                $(self.$field.next = word.get_bits::<$bits>($place.lsb);)+
            }
            fn connect(&mut self) {
                $(self.$field.connect();)+
            }
            fn hdl(&self) -> Verilog {
                let mut code = String::new();
                $(code += &format!("always @(*) {} = data[{}:{}];\n", stringify!($field), $place.msb, $place.lsb);)+
                Verilog::Custom(code)
            }
        }
    };
}

/// Declares a block that builds a word from fields, with zero in every bit
/// that belongs to none. Combinational.
macro_rules! pack_word {
    ($(#[$doc:meta])* $name:ident, $word:literal { $($field:ident : $bits:literal = $place:path),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(LogicBlock, Default)]
        pub struct $name {
            $(#[doc = concat!("`", stringify!($place), "`.")] pub $field: Signal<In, Bits<$bits>>,)+
            /// The word.
            pub out: Signal<Out, Bits<$word>>,
        }
        const _: () = { $(assert!($place.width() == $bits && $place.msb < $word);)+ };
        impl Logic for $name {
            fn update(&mut self) {
                let mut word = Bits::<$word>::default();
                $(word.set_bits::<$bits>($place.lsb, self.$field.val());)+
                self.out.next = word;
            }
            fn connect(&mut self) {
                self.out.connect();
            }
            fn hdl(&self) -> Verilog {
                let mut code = format!("always @(*) begin\n  out = {}'h0;\n", $word);
                $(code += &format!("  out[{}:{}] = {};\n", $place.msb, $place.lsb, stringify!($field));)+
                code += "end\n";
                Verilog::Custom(code)
            }
        }
    };
}

pub(crate) use {pack_word, unpack_word};
