// Rust between Python frames (chain.py): closures, iterators, a panic that is caught. A cdylib by plain rustc.
use std::ffi::c_void;
use std::hint::black_box;
use std::panic;

extern "C" {
    fn PyObject_CallFunctionObjArgs(callable: *mut c_void, ...) -> *mut c_void;
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn rust_work(n: u64) -> u64 {
    let mut x = black_box(1u64);
    for _ in 0..n {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
    }
    x
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn rust_call(callback: *mut c_void) -> u64 {
    let result = unsafe { PyObject_CallFunctionObjArgs(callback, std::ptr::null_mut::<c_void>()) };
    black_box(result as u64)
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn rust_enter(callback: *mut c_void) -> *mut c_void {
    let calls: Vec<Box<dyn Fn() -> u64>> = vec![Box::new(move || rust_call(callback))];
    black_box(calls.iter().map(|f| f()).sum::<u64>());
    std::ptr::null_mut()
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn rust_deep(callback: *mut c_void) -> *mut c_void {
    let total: u64 = (0..1u64).filter(|n| n % 2 == 0).map(|n| n + rust_call(callback)).sum();
    black_box(total);
    std::ptr::null_mut()
}

struct Cleaner;

impl Drop for Cleaner {
    fn drop(&mut self) {
        rust_drop();
    }
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn rust_drop() {
    black_box(rust_work(3000)); // while the stack is unwound for a panic
}

#[no_mangle]
#[inline(never)]
pub extern "C-unwind" fn rust_panicker(depth: u32) {
    let _cleaner = Cleaner;
    if depth == 0 {
        panic::resume_unwind(Box::new(7u32)); // as panic!, without the message on stderr
    }
    rust_panicker(depth - 1);
    black_box(depth);
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn rust_catcher() {
    let _ = black_box(panic::catch_unwind(|| rust_panicker(4)));
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn rust_sort() {
    let mut values: Vec<u64> = (0..100).map(|i| i * 37 % 100).collect();
    values.sort_by_key(|v| (black_box(rust_work(10)) & 0) + *v);
    black_box(values);
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn rust_spin(rounds: i64) -> *mut c_void {
    for _ in 0..rounds {
        black_box(rust_work(1000));
        rust_catcher();
        rust_sort();
    }
    black_box(std::ptr::null_mut())
}
