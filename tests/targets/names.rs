// Generic functions and inlined iterators. Compiled with -O -g.
mod grid {
    pub struct Cells {
        pub values: Vec<u64>,
    }

    impl Cells {
        #[inline(never)]
        pub fn total<F: Fn(u64) -> u64>(&self, f: F) -> u64 {
            self.values.iter().map(|v| f(*v)).fold(0u64, |a, b| a ^ b) // LINE total
        }
    }
}

#[inline(always)]
fn churn(seed: u64) -> u64 {
    let mut x = seed;
    // Without the shift compilers make one step of all 64.
    for _ in 0..64 {
        x = (x ^ x >> 29).wrapping_mul(6364136223846793005); // LINE churn
    }
    x
}

fn main() {
    let cells = grid::Cells { values: (0..10000).collect() };
    let n: u64 = std::env::args().nth(1).map_or(500, |a| a.parse().unwrap());
    let mut sum = 0u64;
    for i in 0..n {
        sum ^= cells.total(|v| churn(v + i)); // LINE main
    }
    println!("{}", sum & 1);
}
