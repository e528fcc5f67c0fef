//! The naive port: the device only multiplies. Matrix and vector go up and the product comes back
//! in every step; all else is done by the CPU.

use super::steps::{Solver, check_curvature, check_step, norm};
use super::{Outcome, System};
use crate::error::Result;
use pinfold::Memory;
use pinfold::hal::{HostAddr, HostWork};
use pinfold::kernels::cg::HostMatrix;

/// Doubles of each row that the CPU reads and writes in a step, beside the product.
const DOUBLES_PER_ROW: u64 = 17;

pub(super) fn solve(
    solver: &mut Solver,
    memory: &Memory,
    system: &System<'_>,
    matrix: HostMatrix,
) -> Result<Outcome> {
    let n = system.b.len();
    let start_ns = solver.device().now_ns();
    let step_bytes_up = matrix.bytes() + 8 * n as u64;
    let mut host_p = memory.upload::<f64>(n)?;
    let mut host_q = memory.download::<f64>(n)?;
    // The first copy makes the place on the device.
    let (flying, mut on_device) = matrix.upload(memory, &solver.stream)?;
    let mut matrix = flying.wait()?;

    let mut x = vec![0.0; n];
    let mut r = system.b.clone();
    let mut z: Vec<f64> = scaled(&r, &system.inverse_diagonal);
    let mut p = z.clone();
    let mut rz = dot(&r, &z);
    let norm_b = norm(&system.b);
    let mut residual = norm(&r);
    let loop_start_ns = solver.device().now_ns();
    let mut iterations = 0;
    while residual > system.options.tolerance * norm_b {
        check_step(system, iterations, residual)?;
        host_p.write(0, &p)?;
        let (stream, cg, vectors, cell) = solver.vectors();
        let flying = matrix.upload_again(stream, &mut on_device)?;
        let flying_p = stream.upload(host_p, &mut vectors.p)?;
        cg.spmv_dot(stream, &on_device, &vectors.p, &mut vectors.q, cell)?;
        host_q = stream.download(&vectors.q, host_q)?.wait()?;
        matrix = flying.wait()?;
        host_p = flying_p.wait()?;
        let pq = dot(&p, &host_q);
        check_curvature(system, iterations, pq)?;
        let alpha = rz / pq;
        add_scaled(&mut x, alpha, &p);
        add_scaled(&mut r, -alpha, &host_q);
        z = scaled(&r, &system.inverse_diagonal);
        let rz_next = dot(&r, &z);
        let beta = rz_next / rz;
        p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + beta * *p);
        (rz, residual) = (rz_next, norm(&r));
        // On a real device the arithmetic took its time; a virtual clock has to be told.
        solver.device().declare_host_work(HostWork::Read {
            addr: HostAddr(host_q.as_ptr() as usize),
            bytes: DOUBLES_PER_ROW * 8 * n as u64,
        });
        iterations += 1;
    }
    let end_ns = solver.device().now_ns();
    Ok(Outcome {
        x,
        iterations,
        loop_seconds: (end_ns - loop_start_ns) as f64 * 1e-9,
        total_seconds: (end_ns - start_ns) as f64 * 1e-9,
        bytes_up: iterations * step_bytes_up + on_device.bytes(),
        bytes_down: iterations * 8 * n as u64,
    })
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn scaled(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

fn add_scaled(to: &mut [f64], by: f64, what: &[f64]) {
    to.iter_mut()
        .zip(what)
        .for_each(|(to, what)| *to += by * what);
}
