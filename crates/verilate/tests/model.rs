// SPDX-License-Identifier: MIT OR Apache-2.0
//! The binding against designs whose behaviour is plain.

use tsonic_verilate::{Design, Error, Model, Optimisation, PortSpec};

fn adder() -> Design {
    let mut text = String::from("module top(clock");
    let widths = [1, 8, 9, 16, 17, 32, 33, 64, 65, 200];
    let mut ports = vec![PortSpec::input("clock", 1)];
    let mut body = String::from("input wire clock;\n");
    for width in widths {
        text += &format!(", in${width}, out${width}");
        body += &format!(
            "input wire [{t}:0] in${width};\noutput reg [{t}:0] out${width};\n\
             initial out${width} = 0;\n\
             always @(posedge clock) out${width} <= out${width} + in${width};\n",
            t = width - 1
        );
        ports.push(PortSpec::input(format!("in${width}"), width));
        ports.push(PortSpec::output(format!("out${width}"), width));
    }
    Design {
        top: "top".into(),
        verilog: format!("{text});\n{body}endmodule\n"),
        ports,
    }
}

#[test]
fn ports_of_every_storage_class_round_trip() {
    let mut model = Model::build(&adder(), Optimisation::Quick).unwrap();
    let clock = model.input("clock").unwrap();
    for width in [1usize, 8, 9, 16, 17, 32, 33, 64] {
        model.set(model.input(&format!("in${width}")).unwrap(), u64::MAX);
    }
    for width in [65usize, 200] {
        model.set_words(model.input(&format!("in${width}")).unwrap(), &[u32::MAX; 9]);
    }
    for value in [0, 1, 0, 1] {
        model.set(clock, value);
        model.eval();
    }
    for width in [1usize, 8, 9, 16, 17, 32, 33, 64] {
        // Twice all ones is all ones but the lowest bit.
        let all = u64::MAX >> (64 - width);
        let output = model.output(&format!("out${width}")).unwrap();
        assert_eq!(model.get(output), all - 1, "{width} bits");
        assert_eq!(model.words(output)[0], (all - 1) as u32);
    }
    assert_eq!(
        model.words(model.output("out$65").unwrap()),
        [u32::MAX - 1, u32::MAX, 1]
    );
    let wide = model.words(model.output("out$200").unwrap());
    assert_eq!(wide, [u32::MAX - 1, !0, !0, !0, !0, !0, 0xff]);
}

#[test]
fn two_models_of_a_design_are_apart() {
    let mut one = Model::build(&adder(), Optimisation::Quick).unwrap();
    let two = Model::build(&adder(), Optimisation::Quick).unwrap();
    one.set(one.input("in$8").unwrap(), 3);
    for value in [0, 1] {
        one.set(one.input("clock").unwrap(), value);
        one.eval();
    }
    assert_eq!(one.get(one.output("out$8").unwrap()), 3);
    assert_eq!(two.get(two.output("out$8").unwrap()), 0);
    let moved = std::thread::spawn(move || one.get(one.output("out$8").unwrap()));
    assert_eq!(moved.join().unwrap(), 3);
}

#[test]
#[should_panic(expected = "a port of another model")]
fn a_handle_of_another_model_is_refused() {
    let one = Model::build(&adder(), Optimisation::Quick).unwrap();
    let two = Model::build(&adder(), Optimisation::Quick).unwrap();
    two.get(one.output("out$8").unwrap());
}

#[test]
fn unknown_ports_and_wrong_directions_are_errors() {
    let model = Model::build(&adder(), Optimisation::Quick).unwrap();
    assert!(matches!(
        model.input("nothing"),
        Err(Error::UnknownPort { .. })
    ));
    assert!(matches!(
        model.input("out$8"),
        Err(Error::UnknownPort { .. })
    ));
}

#[test]
fn a_refused_design_shows_the_tail_of_the_log() {
    let design = Design {
        top: "top".into(),
        verilog: "module top(input wire a, output wire b);\nassign b = nowhere(a);\nendmodule"
            .into(),
        ports: vec![PortSpec::input("a", 1), PortSpec::output("b", 1)],
    };
    let error = Model::build(&design, Optimisation::Quick).unwrap_err();
    assert!(matches!(error, Error::Verilate { .. }), "{error}");
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn a_declared_width_that_is_wrong_is_an_error() {
    let design = Design {
        top: "top".into(),
        verilog: "module top(input wire [15:0] a, output wire [15:0] b);\nassign b = a;\nendmodule"
            .into(),
        ports: vec![PortSpec::input("a", 40), PortSpec::output("b", 16)],
    };
    let error = Model::build(&design, Optimisation::Quick).unwrap_err();
    assert!(
        matches!(error, Error::PortWidth { width: 40, .. }),
        "{error}"
    );
}

#[test]
fn a_design_that_does_not_settle_is_an_error_and_no_abort() {
    let design = Design {
        top: "top".into(),
        verilog: "module top(input wire a, output wire b);\n\
                  wire x /*verilator split_var*/;\nassign x = a ? ~x : 1'b0;\nassign b = x;\nendmodule"
            .into(),
        ports: vec![PortSpec::input("a", 1), PortSpec::output("b", 1)],
    };
    let mut model = Model::build(&design, Optimisation::Quick).unwrap();
    assert!(model.try_eval().is_ok());
    model.set(model.input("a").unwrap(), 1);
    let error = model.try_eval().unwrap_err();
    assert!(error.to_string().contains("converge"), "{error}");
}
