// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lint of Rust source: what the generator drops before a syntax tree exists.

use super::{Finding, Rule};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Why source could not be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not Rust.
    #[error("{path}: {source}")]
    Syntax {
        /// Which.
        path: PathBuf,
        /// Why.
        source: syn::Error,
    },
}

/// Checks the functions under `#[hdl_gen]` of one file's text. `custom` permits
/// hand-written Verilog.
///
/// # Errors
/// [`syn::Error`] when the text is not Rust.
pub fn check_text(place: &str, text: &str, custom: bool) -> Result<Vec<Finding>, syn::Error> {
    let file = syn::parse_file(text)?;
    let mut checker = Checker {
        place,
        custom,
        generated: false,
        findings: Vec::new(),
    };
    checker.visit_file(&file);
    Ok(checker.findings)
}

/// Checks every `.rs` file below `dir`. Hand-written Verilog may stand in the
/// folders `primitives` and `boards` only.
///
/// # Errors
/// [`Error`] when a file cannot be read or is not Rust.
pub fn check_tree(dir: &Path) -> Result<Vec<Finding>, Error> {
    let io = |source| Error::Io {
        path: dir.into(),
        source,
    };
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .map_err(io)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(io)?;
    entries.sort();
    let mut findings = Vec::new();
    for path in entries {
        if path.is_dir() {
            findings.extend(check_tree(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).map_err(|source| Error::Io {
                path: path.clone(),
                source,
            })?;
            let custom = path
                .components()
                .any(|part| part.as_os_str() == "primitives" || part.as_os_str() == "boards");
            let found =
                check_text(&path.display().to_string(), &text, custom).map_err(|source| {
                    Error::Syntax {
                        path: path.clone(),
                        source,
                    }
                })?;
            findings.extend(found);
        }
    }
    Ok(findings)
}

struct Checker<'a> {
    place: &'a str,
    custom: bool,
    /// Inside a function that becomes Verilog.
    generated: bool,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn hit(&mut self, at: &impl Spanned, rule: Rule, what: impl Into<String>) {
        let place = format!("{}:{}", self.place, at.span().start().line);
        self.findings.push(Finding {
            place,
            rule,
            what: what.into(),
        });
    }

    fn pattern(&mut self, pattern: &syn::Pat) {
        match pattern {
            syn::Pat::Lit(literal) if matches!(literal.lit, syn::Lit::Bool(_)) => {
                self.hit(pattern, Rule::MatchBool, "bool pattern");
            }
            syn::Pat::Ident(name) => {
                self.hit(pattern, Rule::BarePattern, name.ident.to_string());
            }
            syn::Pat::Path(path) if path.path.segments.len() < 2 => {
                let name = path
                    .path
                    .segments
                    .first()
                    .map(|segment| segment.ident.to_string());
                self.hit(pattern, Rule::BarePattern, name.unwrap_or_default());
            }
            syn::Pat::Range(_) => self.hit(pattern, Rule::InclusiveRange, "range pattern"),
            syn::Pat::Or(or) => or.cases.iter().for_each(|case| self.pattern(case)),
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Checker<'_> {
    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        let generated = function.attrs.iter().any(|attribute| {
            attribute
                .path()
                .segments
                .last()
                .is_some_and(|s| s.ident == "hdl_gen")
        });
        let outer = std::mem::replace(&mut self.generated, generated);
        visit::visit_impl_item_fn(self, function);
        self.generated = outer;
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if self.generated {
            if arm.guard.is_some() {
                self.hit(arm, Rule::MatchGuard, "match guard");
            }
            self.pattern(&arm.pat);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_range(&mut self, range: &'ast syn::ExprRange) {
        if self.generated && matches!(range.limits, syn::RangeLimits::Closed(_)) {
            self.hit(range, Rule::InclusiveRange, "..=");
        }
        visit::visit_expr_range(self, range);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let segments = &path.path.segments;
        let names: Vec<String> = segments.iter().map(|s| s.ident.to_string()).collect();
        if let [.., owner, kind] = names.as_slice()
            && owner == "Verilog"
            && ["Custom", "Wrapper", "Blackbox"].contains(&kind.as_str())
            && !self.custom
        {
            self.hit(path, Rule::CustomVerilog, format!("Verilog::{kind}"));
        }
        visit::visit_expr_path(self, path);
    }
}
