// SPDX-License-Identifier: MIT OR Apache-2.0
//! A compiled design, loaded.

use crate::{Design, Direction, Error, Optimisation, PortSpec, build};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_uint, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Widest port that can be bound.
const WIDTH_MAX: usize = 65_536;

type New = unsafe extern "C" fn() -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Eval = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type PortOf = unsafe extern "C" fn(*mut c_void, c_uint, *mut c_uint) -> *mut c_void;

/// Handle of an input of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input(Handle);

/// Handle of an output of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output(Handle);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handle {
    model: u32,
    index: u32,
}

struct Place {
    pointer: NonNull<u8>,
    width: usize,
}

/// A compiled and loaded design: registers, memories and ports.
///
/// # Why the methods are safe
/// * All memory reached through `places` is inside the C++ object that
///   `tsonic_new` made; it is freed in `drop` and not before.
/// * A handle carries the number of its model and is refused by any other, so
///   an index always belongs to this model's `places`.
/// * The shim reported each member's size, and the constructor checked it
///   against the width from which the access type is chosen.
/// * `&mut self` guards `set` and `eval`, `&self` guards `get`: no data race.
pub struct Model {
    object: NonNull<c_void>,
    eval: Eval,
    free: Free,
    number: u32,
    places: Vec<Place>,
    names: HashMap<String, (u32, Direction)>,
    // Dropped last: the functions above live in it.
    _library: libloading::Library,
}

// SAFETY: a model shares no state with another: each has its own
// `VerilatedContext`, and the run time's statics are guarded by its own locks.
// Nothing in it is bound to the thread that made it.
unsafe impl Send for Model {}

/// Bytes of the C++ member of a port of `width` bits.
fn member_bytes(width: usize) -> usize {
    match width {
        1..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        33..=64 => 8,
        _ => width.div_ceil(32) * 4,
    }
}

fn mask(width: usize) -> u64 {
    u64::MAX >> (64 - width.clamp(1, 64))
}

/// Compiles the design, or finds it in the cache, without loading it: the shared
/// object, for a program of another language. Its C interface is `void *tsonic_new()`,
/// `tsonic_free(model)`, `const char *tsonic_eval(model)` (null, or why the design
/// stopped) and `void *tsonic_port(model, index, unsigned *bytes)`, the memory of the
/// port with that place in [`Design::ports`].
///
/// # Errors
/// As of [`Model::build`].
pub fn compile(design: &Design, optimisation: Optimisation) -> Result<PathBuf, Error> {
    if let Some(PortSpec { name, width, .. }) = design
        .ports
        .iter()
        .find(|port| !(1..=WIDTH_MAX).contains(&port.width))
    {
        return Err(Error::PortWidth {
            name: name.clone(),
            width: *width,
        });
    }
    build::object(design, optimisation)
}

impl Model {
    /// Compiles the design, or takes it from the cache, and loads it. All
    /// registers and memories are at their initial values, or 0.
    ///
    /// # Errors
    /// Tools that are missing, a design that they refuse, a cache that cannot
    /// be written: see [`Error`].
    pub fn build(design: &Design, optimisation: Optimisation) -> Result<Self, Error> {
        let path = compile(design, optimisation)?;
        let load = |source| Error::Load {
            path: path.clone(),
            source,
        };
        // SAFETY: the object is ours, built from the shim in `build`; loading it
        // runs the constructors of Verilator's run time and nothing else.
        let library = unsafe { libloading::Library::new(&path) }.map_err(load)?;
        // SAFETY: the shim defines these four names with these types.
        let (new, free, eval, port_of): (New, Free, Eval, PortOf) = unsafe {
            (
                *library.get(b"tsonic_new\0").map_err(load)?,
                *library.get(b"tsonic_free\0").map_err(load)?,
                *library.get(b"tsonic_eval\0").map_err(load)?,
                *library.get(b"tsonic_port\0").map_err(load)?,
            )
        };
        // SAFETY: takes no argument; returns a new object or null.
        let object = NonNull::new(unsafe { new() })
            .ok_or_else(|| Error::Stopped("the design could not be set up".into()))?;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // From here on `drop` frees the object, on the error path too.
        let mut model = Self {
            object,
            eval,
            free,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            places: Vec::with_capacity(design.ports.len()),
            names: HashMap::new(),
            _library: library,
        };
        for (index, port) in (0..).zip(&design.ports) {
            let mut bytes: c_uint = 0;
            // SAFETY: the object is alive and `bytes` is a valid place.
            let pointer = unsafe { port_of(object.as_ptr(), index, &mut bytes) };
            match NonNull::new(pointer.cast::<u8>()) {
                Some(pointer) if bytes as usize == member_bytes(port.width) => {
                    model.places.push(Place {
                        pointer,
                        width: port.width,
                    });
                }
                _ => {
                    return Err(Error::PortWidth {
                        name: port.name.clone(),
                        width: port.width,
                    });
                }
            }
            model
                .names
                .insert(port.name.clone(), (index, port.direction));
        }
        Ok(model)
    }

    fn find(&self, name: &str, direction: Direction) -> Result<Handle, Error> {
        match self.names.get(name) {
            Some(&(index, found)) if found == direction => Ok(Handle {
                model: self.number,
                index,
            }),
            _ => Err(Error::UnknownPort {
                name: name.into(),
                direction: match direction {
                    Direction::Input => "input",
                    Direction::Output => "output",
                },
            }),
        }
    }

    /// Handle of an input.
    ///
    /// # Errors
    /// [`Error::UnknownPort`].
    pub fn input(&self, name: &str) -> Result<Input, Error> {
        self.find(name, Direction::Input).map(Input)
    }

    /// Handle of an output.
    ///
    /// # Errors
    /// [`Error::UnknownPort`].
    pub fn output(&self, name: &str) -> Result<Output, Error> {
        self.find(name, Direction::Output).map(Output)
    }

    /// Lets the design settle; a rise of its clock since the last call is an
    /// edge.
    ///
    /// # Panics
    /// When the design does not settle or stops itself; see
    /// [`try_eval`](Self::try_eval).
    #[inline]
    pub fn eval(&mut self) {
        // SAFETY: the object is alive; `&mut self` keeps others off it.
        let message = unsafe { (self.eval)(self.object.as_ptr()) };
        if !message.is_null() {
            panic!("{}", self.stopped(message));
        }
    }

    /// [`eval`](Self::eval) for designs that may stop.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the design does not settle or stops itself. It
    /// is in no usable state then.
    #[inline]
    pub fn try_eval(&mut self) -> Result<(), Error> {
        // SAFETY: as in `eval`.
        let message = unsafe { (self.eval)(self.object.as_ptr()) };
        if message.is_null() {
            Ok(())
        } else {
            Err(self.stopped(message))
        }
    }

    #[cold]
    fn stopped(&self, message: *const c_char) -> Error {
        // SAFETY: not null, so it is the C string that the shim keeps in the
        // object until the next evaluation.
        Error::Stopped(
            unsafe { CStr::from_ptr(message) }
                .to_string_lossy()
                .into_owned(),
        )
    }

    #[inline(always)]
    fn place(&self, handle: Handle) -> &Place {
        assert_eq!(handle.model, self.number, "a port of another model");
        &self.places[handle.index as usize]
    }

    /// Drives an input of at most 64 bits; bits above its width are dropped.
    ///
    /// # Panics
    /// When the input belongs to another model or is wider than 64 bits.
    #[inline]
    pub fn set(&mut self, input: Input, value: u64) {
        let Place { pointer, width } = *self.place(input.0);
        let value = value & mask(width);
        // SAFETY: see the type; `member_bytes` ties the width to the member's
        // type, which is aligned as such in C++.
        unsafe {
            match width {
                1..=8 => pointer.write(value as u8),
                9..=16 => pointer.cast::<u16>().write(value as u16),
                17..=32 => pointer.cast::<u32>().write(value as u32),
                33..=64 => pointer.cast::<u64>().write(value),
                _ => panic!("a port of {width} bits takes words"),
            }
        }
    }

    #[inline]
    fn read(&self, handle: Handle) -> u64 {
        let Place { pointer, width } = *self.place(handle);
        // SAFETY: as in `set`.
        unsafe {
            match width {
                1..=8 => u64::from(pointer.read()),
                9..=16 => u64::from(pointer.cast::<u16>().read()),
                17..=32 => u64::from(pointer.cast::<u32>().read()),
                33..=64 => pointer.cast::<u64>().read(),
                _ => panic!("a port of {width} bits has words"),
            }
        }
    }

    /// Reads an output of at most 64 bits.
    ///
    /// # Panics
    /// When the output belongs to another model or is wider than 64 bits.
    #[inline]
    pub fn get(&self, output: Output) -> u64 {
        self.read(output.0)
    }

    /// Whether an output of one bit is 1.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    #[inline]
    pub fn is_high(&self, output: Output) -> bool {
        self.read(output.0) & 1 == 1
    }

    /// Drives an input of any width from 32-bit words, lowest first. Missing
    /// words are 0; words and bits above the width are dropped.
    ///
    /// # Panics
    /// When the input belongs to another model.
    pub fn set_words(&mut self, input: Input, words: &[u32]) {
        let Place { pointer, width } = *self.place(input.0);
        let word = |n: usize| words.get(n).copied().unwrap_or(0);
        if width <= 64 {
            self.set(input, u64::from(word(0)) | u64::from(word(1)) << 32);
            return;
        }
        let count = width.div_ceil(32);
        for n in 0..count {
            let bits = (width - 32 * n).min(32);
            let value = word(n) & (u32::MAX >> (32 - bits));
            // SAFETY: a member wider than 64 bits is an array of `count` words.
            unsafe { pointer.cast::<u32>().add(n).write(value) };
        }
    }

    /// Reads an output of any width as 32-bit words, lowest first.
    ///
    /// # Panics
    /// When the output belongs to another model.
    pub fn words(&self, output: Output) -> Vec<u32> {
        let Place { pointer, width } = *self.place(output.0);
        if width <= 64 {
            let value = self.get(output);
            return (0..width.div_ceil(32))
                .map(|n| (value >> (32 * n)) as u32)
                .collect();
        }
        // SAFETY: as in `set_words`.
        (0..width.div_ceil(32))
            .map(|n| unsafe { pointer.cast::<u32>().add(n).read() })
            .collect()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made by `tsonic_new`, freed once.
        unsafe { (self.free)(self.object.as_ptr()) };
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("ports", &self.places.len())
            .finish_non_exhaustive()
    }
}
