// Assembly between Python frames (chain.py): correct call frame information of the kinds that compilers do not write.
	.text

// A small function's frame: name, export, type.
	.macro function name
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.endm
	.macro done name
	.cfi_endproc
	.size \name, . - \name
	.endm

// The CFA stands in r12, which only callee-saved rules bring back to outer frames; pushes and pops around calls.
	function asm_enter
	push %r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	lea 16(%rsp), %r12
	.cfi_def_cfa %r12, 0
	sub $1000, %rsp
	and $-64, %rsp
	push %rdi
	push %rdi
	call asm_mid@PLT
	pop %rdi
	pop %rdi
	lea -8(%r12), %rsp
	mov -16(%r12), %r12
	.cfi_def_cfa %rsp, 8
	.cfi_restore %r12
	xor %eax, %eax
	ret
	done asm_enter

// As gcc's realigned frames: the CFA's address is in r10, then at rbp - 8 (an expression), and rbp is saved at rbp itself.
	function asm_mid
	lea 8(%rsp), %r10
	.cfi_def_cfa %r10, 0
	and $-32, %rsp
	push -8(%r10)
	push %rbp
	mov %rsp, %rbp
	.cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00	// rbp: at (rbp + 0)
	push %r10
	.cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06	// CFA: *(rbp - 8)
	sub $24, %rsp
	xor %esi, %esi
	xor %eax, %eax
	call PyObject_CallFunctionObjArgs@PLT
	mov -8(%rbp), %r10
	.cfi_def_cfa %r10, 0
	leave
	lea -8(%r10), %rsp
	.cfi_def_cfa %rsp, 8
	ret
	done asm_mid

// As OpenSSL's: the old stack pointer is kept at a place on the stack, and the CFA is what lies there plus 8.
	function asm_deep
	mov %rsp, %rax
	.cfi_def_cfa_register %rax
	push %rbx
	.cfi_offset %rbx, -16
	sub $2000, %rsp
	and $-1024, %rsp
	mov %rax, 40(%rsp)
	.cfi_escape 0x0f, 0x06, 0x77, 0x28, 0x06, 0x23, 0x08, 0x96	// CFA: *(rsp + 40) + 8 (and a nop)
	call asm_inner@PLT
	mov 40(%rsp), %rsi
	.cfi_def_cfa %rsi, 8
	mov -8(%rsi), %rbx
	.cfi_restore %rbx
	lea (%rsi), %rsp
	.cfi_def_cfa_register %rsp
	xor %eax, %eax
	ret
	done asm_deep

// rbx-based, with remember and restore around an early return.
	function asm_inner
	push %rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	mov %rsp, %rbx
	.cfi_def_cfa_register %rbx
	and $-128, %rsp
	test %rdi, %rdi
	jnz 1f
	.cfi_remember_state
	mov %rbx, %rsp
	pop %rbx
	.cfi_restore %rbx
	.cfi_def_cfa %rsp, 8
	ret
1:
	.cfi_restore_state
	xor %esi, %esi
	xor %eax, %eax
	call PyObject_CallFunctionObjArgs@PLT
	mov %rbx, %rsp
	.cfi_def_cfa_register %rsp
	pop %rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
	done asm_inner

// rsp moves at every instruction.
	function asm_spin
	push %rdi
	.cfi_adjust_cfa_offset 8
1:
	mov $1000, %ecx
2:
	push %rcx
	.cfi_adjust_cfa_offset 8
	push %rcx
	.cfi_adjust_cfa_offset 8
	call asm_work@PLT
	pop %rcx
	.cfi_adjust_cfa_offset -8
	pop %rcx
	.cfi_adjust_cfa_offset -8
	dec %ecx
	jnz 2b
	decq (%rsp)
	jg 1b
	pop %rdi
	.cfi_adjust_cfa_offset -8
	xor %eax, %eax
	ret
	done asm_spin

// The return address waits in a register while the function runs.
	function asm_work
	pop %r11
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %r11
	mov $50, %eax
1:
	dec %eax
	jnz 1b
	push %r11
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rip, -8
	ret
	done asm_work

	.section .note.GNU-stack, "", @progbits
