use pyo3::prelude::*;

#[pyfunction]
fn crunch(n: u64) -> u64 {
    (0..n).map(|x| x.wrapping_mul(2654435761) >> 7).fold(0, |a, b| a ^ b)
}

#[pyclass]
struct Walker { steps: u64 }

#[pymethods]
impl Walker {
    #[new]
    fn new() -> Self { Walker { steps: 0 } }
    fn walk(&mut self, callback: Bound<'_, PyAny>, n: u64) -> PyResult<u64> {
        for i in 0..n { self.steps += callback.call1((i,))?.extract::<u64>()?; }
        Ok(self.steps)
    }
}

#[pymodule]
fn deep(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(crunch, m)?)?;
    m.add_class::<Walker>()
}
