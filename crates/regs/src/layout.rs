// SPDX-License-Identifier: MIT OR Apache-2.0
//! One table a word: each field's bits are typed once and become accessors
//! (`bitfield`), constants for the logic, and rows of the register page.

/// Place of a field inside a word of 64 or 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name as the register page prints it.
    pub name: &'static str,
    /// Lowest bit.
    pub lsb: usize,
    /// Highest bit.
    pub msb: usize,
    /// What it means, with unit and range.
    pub doc: &'static str,
}

impl Field {
    /// Width in bits.
    pub const fn width(&self) -> usize {
        self.msb - self.lsb + 1
    }

    /// The field's bits set within the word.
    pub const fn mask(&self) -> u64 {
        (u64::MAX >> (64 - self.width())) << self.lsb
    }

    /// Largest value.
    pub const fn max(&self) -> u64 {
        u64::MAX >> (64 - self.width())
    }
}

/// Declares a word: a `bitfield` struct and, under the same name in lower
/// case, a module with a [`Field`] constant for each field and `FIELDS`.
macro_rules! word {
    (
        $(#[$doc:meta])*
        $name:ident($int:ty) / $module:ident {
            $( #[doc = $fdoc:literal] $get:ident, $set:ident, $konst:ident : $fty:ident = $msb:literal .. $lsb:literal; )*
        }
    ) => {
        bitfield::bitfield! {
            $(#[$doc])*
            #[derive(Clone, Copy, Default, PartialEq, Eq)]
            pub struct $name(pub $int);
            impl Debug;
            $( #[doc = $fdoc] pub $fty, $get, $set: $msb, $lsb; )*
        }

        #[doc = concat!("Places of the fields of [`", stringify!($name), "`].")]
        pub mod $module {
            use crate::layout::Field;
            $(
                #[doc = $fdoc]
                pub const $konst: Field =
                    Field { name: stringify!($konst), lsb: $lsb, msb: $msb, doc: $fdoc };
            )*
            /// Every field, lowest bit first.
            pub const FIELDS: &[Field] = &[$($konst),*];
        }

        // No two fields of a word may overlap, and they stand in order.
        const _: () = {
            let mut next = 0;
            let mut i = 0;
            while i < $module::FIELDS.len() {
                let f = $module::FIELDS[i];
                assert!(f.lsb >= next && f.msb >= f.lsb && f.msb < <$int>::BITS as usize);
                next = f.msb + 1;
                i += 1;
            }
        };
    };
}
pub(crate) use word;
