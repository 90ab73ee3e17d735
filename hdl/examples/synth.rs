// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthesises, places and routes blocks for an ECP5 (LFE5UM5G-45F, speed 8)
//! and fails when one does not reach the clock of the design.
//!
//! ```text
//! cargo run -p tsonic-hdl --example synth -- [--out DIR] [--jobs N] [BLOCK...]
//! ```
//! Without names: every block of `tsonic_hdl::blocks` that is to be synthesised.
//! `scripts/synth.sh` provides the tools, whose folder is in `TSONIC_FPGA_BIN`,
//! and calls this.
//!
//! A block has more ports than the package has pins, so it stands between
//! registers: inputs come from a shift register, outputs are captured and folded
//! into another. The block keeps its own level of hierarchy in yosys, so its
//! counts are its own.

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tsonic_hdl::blocks::{self, BLOCKS, Entry};
use tsonic_hdl::verilog::{self, Generated};

/// The clock of the design in MHz.
const CLOCK_MHZ: f64 = 125.0;
/// Seeds of the placer, until one reaches the clock.
const SEEDS: std::ops::RangeInclusive<u32> = 1..=4;
const DEVICE: &[&str] = &["--um5g-45k", "--package", "CABGA381", "--speed", "8"];

#[derive(Clone, Debug)]
struct Figures {
    name: String,
    luts: u64,
    registers: u64,
    block_rams: u64,
    multipliers: u64,
    fmax: f64,
    seed: u32,
    critical: String,
    seconds: f64,
}

/// The block between registers, as module `harness`.
fn harness(generated: &Generated) -> Result<String, String> {
    let mut inputs = Vec::new();
    let mut outputs = Vec::new();
    for port in &generated.ports {
        match (port.input, port.name.as_str()) {
            (true, "clock") => {}
            (true, name) => inputs.push((name, port.width)),
            (false, name) => outputs.push((name, port.width)),
        }
    }
    let ins: usize = inputs.iter().map(|(_, width)| width).sum();
    let outs: usize = outputs.iter().map(|(_, width)| width).sum();
    if ins == 0 || outs == 0 {
        return Err("the block has no inputs or no outputs".into());
    }
    let mut pins = String::from(".clock(clk)");
    for (list, bus) in [(&inputs, "stimulus"), (&outputs, "result")] {
        let mut at = 0;
        for (name, width) in list {
            let _ = write!(pins, ",\n  .{name}({bus}[{}:{at}])", at + width - 1);
            at += width;
        }
    }
    Ok(format!(
        "module harness(input wire clk, input wire si, output reg so);
reg [{i}:0] stimulus;
wire [{o}:0] result;
reg [{o}:0] captured;
reg [{o}:0] folded;
always @(posedge clk) begin
  stimulus <= {{stimulus, si}};
  captured <= result;
  folded <= {{folded, 1'b0}} ^ captured;
  so <= folded[{o}];
end
{top} block(
  {pins});
endmodule
",
        i = ins - 1,
        o = outs - 1,
        top = verilog::TOP
    ))
}

fn tool(name: &str) -> Command {
    match std::env::var_os("TSONIC_FPGA_BIN") {
        Some(dir) => Command::new(Path::new(&dir).join(name)),
        None => Command::new(name),
    }
}

fn run(command: &mut Command, log: &Path) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("`{program}`: {error}; run scripts/tools.sh fpga"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    fs::write(log, &text).map_err(|error| format!("{}: {error}", log.display()))?;
    if output.status.success() {
        return Ok(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(20)..].join("\n");
    Err(format!(
        "`{program}` failed (log: {}):\n{tail}",
        log.display()
    ))
}

fn read_json(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// End points of the slowest path within the clock domain.
fn critical_path(report: &Value) -> String {
    let paths = report["critical_paths"].as_array();
    let inside = paths.and_then(|paths| {
        paths.iter().find(|path| {
            let (from, to) = (path["from"].as_str(), path["to"].as_str());
            from == to && from.is_some_and(|from| from.contains("posedge"))
        })
    });
    let Some(path) = inside.and_then(|path| path["path"].as_array()) else {
        return String::new();
    };
    let cell = |step: Option<&Value>, side: &str| {
        step.and_then(|step| step[side]["cell"].as_str())
            .unwrap_or("?")
            .to_string()
    };
    format!(
        "{} -> {}",
        cell(path.first(), "from"),
        cell(path.last(), "to")
    )
}

fn synthesise(entry: &Entry, out: &Path) -> Result<Figures, String> {
    let start = Instant::now();
    let dir = out.join(entry.name);
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let generated = verilog::generate((entry.build)().as_ref()).map_err(|e| e.to_string())?;
    let source = dir.join("top.v");
    let text = format!("{}\n{}", generated.text, harness(&generated)?);
    fs::write(&source, text).map_err(|error| format!("{}: {error}", source.display()))?;
    let script = format!(
        "read_verilog top.v\nsetattr -mod -set keep_hierarchy 1 {top}\nsynth_ecp5 -top harness -json netlist.json\n\
         tee -q -o stat.json stat -json\n",
        top = verilog::TOP
    );
    fs::write(dir.join("synth.ys"), script).map_err(|error| error.to_string())?;
    run(
        tool("yosys").current_dir(&dir).args(["-q", "synth.ys"]),
        &dir.join("yosys.log"),
    )?;
    let stat = read_json(&dir.join("stat.json"))?;
    let cells = &stat["modules"][format!("\\{}", verilog::TOP)]["num_cells_by_type"];
    let count = |cell: &str| cells[cell].as_u64().unwrap_or(0);
    let mut figures = Figures {
        name: entry.name.into(),
        // A carry cell is two LUTs, a 16x4 memory four and two for its write port.
        luts: count("LUT4") + 2 * count("CCU2C") + 6 * count("TRELLIS_DPR16X4"),
        registers: count("TRELLIS_FF"),
        block_rams: count("DP16KD"),
        multipliers: count("MULT18X18D"),
        fmax: 0.0,
        seed: 0,
        critical: String::new(),
        seconds: 0.0,
    };
    if figures.luts + figures.registers == 0 {
        return Err("yosys left nothing of the block".into());
    }
    for seed in SEEDS {
        let mut command = tool("nextpnr-ecp5");
        command
            .current_dir(&dir)
            .args(DEVICE)
            .args(["--lpf-allow-unconstrained", "--timing-allow-fail", "-q"])
            .args(["--json", "netlist.json", "--report", "report.json"])
            .args([
                "--freq",
                &CLOCK_MHZ.to_string(),
                "--seed",
                &seed.to_string(),
            ]);
        run(&mut command, &dir.join("nextpnr.log"))?;
        let report = read_json(&dir.join("report.json"))?;
        let fmax = report["fmax"]
            .as_object()
            .and_then(|clocks| {
                clocks
                    .values()
                    .filter_map(|clock| clock["achieved"].as_f64())
                    .reduce(f64::min)
            })
            .ok_or("nextpnr reported no clock")?;
        if fmax > figures.fmax {
            figures.fmax = fmax;
            figures.seed = seed;
            figures.critical = critical_path(&report);
        }
        if fmax >= CLOCK_MHZ {
            break;
        }
    }
    figures.seconds = start.elapsed().as_secs_f64();
    Ok(figures)
}

fn markdown(figures: &[Figures]) -> String {
    let mut text = String::from(
        "| block | LUT4 | registers | block RAM (18 kbit) | MULT18X18 | Fmax in MHz |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    for f in figures {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.1} |",
            f.name, f.luts, f.registers, f.block_rams, f.multipliers, f.fmax
        );
    }
    text
}

fn main() -> ExitCode {
    let mut out = PathBuf::from("target/synthesis");
    let mut jobs = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(2);
    let mut names = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--out" => out = arguments.next().unwrap_or_default().into(),
            "--jobs" => match arguments.next().and_then(|n| n.parse().ok()) {
                Some(n) if n > 0 => jobs = n,
                _ => {
                    eprintln!("synth: --jobs takes a number above 0");
                    return ExitCode::from(2);
                }
            },
            _ => names.push(argument),
        }
    }
    let mut list: Vec<&Entry> = Vec::new();
    if names.is_empty() {
        list.extend(BLOCKS.iter().filter(|entry| entry.synthesise));
    }
    for name in &names {
        match blocks::find(name) {
            Some(entry) => list.push(entry),
            None => {
                let known: Vec<&str> = BLOCKS.iter().map(|entry| entry.name).collect();
                eprintln!("synth: no block `{name}`; there are {}", known.join(", "));
                return ExitCode::from(2);
            }
        }
    }
    let results = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(entry) = list.get(n) else { return };
                    let result = synthesise(entry, &out);
                    match &result {
                        Ok(f) => println!(
                            "{}: {} LUT, {} registers, {} block RAM, {} multipliers, {:.1} MHz \
                             (seed {}, {:.0} s; slowest path {})",
                            f.name,
                            f.luts,
                            f.registers,
                            f.block_rams,
                            f.multipliers,
                            f.fmax,
                            f.seed,
                            f.seconds,
                            f.critical
                        ),
                        Err(error) => println!("{}: {error}", entry.name),
                    }
                    if let Ok(mut results) = results.lock() {
                        results.push((n, result));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(n, _)| *n);
    let done: Vec<Figures> = results
        .iter()
        .filter_map(|(_, r)| r.as_ref().ok().cloned())
        .collect();
    let slow: Vec<&Figures> = done.iter().filter(|f| f.fmax < CLOCK_MHZ).collect();
    for f in &slow {
        println!("{}: {:.1} MHz is below {CLOCK_MHZ} MHz", f.name, f.fmax);
    }
    let rows: Vec<Value> = done
        .iter()
        .map(|f| {
            json!({
                "block": f.name, "lut4": f.luts, "registers": f.registers,
                "block_ram": f.block_rams, "mult18x18": f.multipliers,
                "fmax_mhz": f.fmax, "seed": f.seed, "critical_path": f.critical,
            })
        })
        .collect();
    let files = [
        ("synthesis.md", markdown(&done)),
        (
            "synthesis.json",
            format!(
                "{:#}\n",
                json!({ "device": DEVICE.join(" "), "blocks": rows })
            ),
        ),
    ];
    for (name, text) in files {
        let path = out.join(name);
        if let Err(error) = fs::write(&path, text) {
            eprintln!("synth: {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    if slow.is_empty() && done.len() == list.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
