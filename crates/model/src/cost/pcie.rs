//! What a PCI Express link can do in theory.

/// Largest payload of one packet, in bytes, on the machines that we know.
pub const PAYLOAD_BYTES: u32 = 256;

/// Raw rate of a link in bytes a second, one direction, after line coding: 15.75, 31.51 and 63.02
/// GB/s for 16 lanes of generations 3, 4 and 5 (PCI Express base specification). `None` for a
/// generation that is not known.
pub fn raw_bytes_per_s(generation: u32, lanes: u32) -> Option<f64> {
    let transfers_per_s = match generation {
        3 => 8e9,
        4 => 16e9,
        5 => 32e9,
        _ => return None,
    };
    Some(transfers_per_s / 8.0 * 128.0 / 130.0 * f64::from(lanes))
}

/// Part of the raw rate that is payload when the device reads in requests of `request_bytes`:
/// `s / (s + 20·⌈s/256⌉)`, for headers of 20 bytes a completion.
pub fn read_efficiency(request_bytes: u32) -> f64 {
    efficiency(request_bytes, 20)
}

/// Part of the raw rate that is payload when the device writes in requests of `request_bytes`:
/// `s / (s + 24·⌈s/256⌉)`, for headers of 24 bytes a write.
pub fn write_efficiency(request_bytes: u32) -> f64 {
    efficiency(request_bytes, 24)
}

fn efficiency(request_bytes: u32, header_bytes: u32) -> f64 {
    let request = f64::from(request_bytes.max(1));
    let packets = f64::from(request_bytes.max(1).div_ceil(PAYLOAD_BYTES));
    request / (request + f64::from(header_bytes) * packets)
}

/// Rate of `outstanding` requests of `request_bytes` that each take `latency_ns`, on a link of
/// `link_bytes_per_s`: `min(link, N·s/T)` (Little's law).
pub fn concurrency_bytes_per_s(
    outstanding: u32,
    request_bytes: u32,
    latency_ns: f64,
    link_bytes_per_s: f64,
) -> f64 {
    let in_flight_bytes = f64::from(outstanding) * f64::from(request_bytes);
    (in_flight_bytes / latency_ns * 1e9).min(link_bytes_per_s)
}

/// Size at which a copy reaches half of the link's rate: `t_call·B`.
pub fn half_rate_bytes(call_ns: f64, link_bytes_per_s: f64) -> f64 {
    call_ns * 1e-9 * link_bytes_per_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_rates_are_those_of_the_specification() {
        for (generation, gb_per_s) in [(3, 15.75), (4, 31.51), (5, 63.02)] {
            let raw = raw_bytes_per_s(generation, 16).unwrap();
            assert!((raw / 1e9 - gb_per_s).abs() < 0.01, "{raw}");
        }
        assert_eq!(raw_bytes_per_s(9, 16), None);
    }

    #[test]
    fn small_requests_waste_the_link() {
        assert!((read_efficiency(256) - 256.0 / 276.0).abs() < 1e-12);
        assert!((write_efficiency(32) - 32.0 / 56.0).abs() < 1e-12);
        assert!((read_efficiency(512) - 512.0 / 552.0).abs() < 1e-12);
        assert!(read_efficiency(32) < read_efficiency(64));
    }

    #[test]
    fn a_pipe_is_as_fast_as_its_narrowest_part() {
        let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 1e-12, "{got} {want}");
        near(concurrency_bytes_per_s(1, 128, 1280.0, 50e9), 1e8);
        near(concurrency_bytes_per_s(1000, 128, 1280.0, 50e9), 50e9);
        near(half_rate_bytes(1000.0, 50e9), 50_000.0);
    }
}
