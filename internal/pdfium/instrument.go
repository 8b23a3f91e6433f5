package pdfium

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// clockModule and clockName identify the import that an instrumented module
// calls.
const (
	clockModule = "env"
	clockName   = "emscripten_date_now" // no parameters, returns f64
)

// globalPrefix is the prefix of the names under which an instrumented module
// exports its mutable globals. A number from 0 follows the prefix.
const globalPrefix = "certvault.global."

// clockInterval is the number of loop iterations between two calls of the
// clock. The time between two calls is far below a millisecond, and the calls
// take almost no time.
const clockInterval = 16 << 10

var errWasm = errors.New("the WebAssembly module has an unexpected form")

// Section ids and opcodes of the WebAssembly core specification, 5.5.2 and 5.4.
const (
	sectionImport = 2
	sectionGlobal = 6
	sectionExport = 7
	sectionCode   = 10

	externFunc   = 0
	externGlobal = 3

	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opEnd         = 0x0b
	opCall        = 0x10
	opDrop        = 0x1a
	opGlobalGet   = 0x23
	opGlobalSet   = 0x24
	opTableSet    = 0x26
	opI32Const    = 0x41
	opI32Eqz      = 0x45
	opI32Sub      = 0x6b
	typeI32       = 0x7f
	typeEmpty     = 0x40
)

// instrument returns module with a counter that calls the clock after every
// clockInterval loop iterations. The clock is a Go function of the host. It can
// end the running call, and while it runs, the scheduler can preempt the
// goroutine. Compiled code cannot be preempted, so a long loop without the
// counter would block the garbage collector and therefore the whole process,
// including timers. wazero has an option with the same purpose
// (WithCloseOnContextDone). With this option, the compiled code calls Go in every
// iteration, which makes PDFium five to eight times slower.
//
// Recursion needs no counter, because wazero limits the size of the stack.
//
// instrument also exports all mutable globals, and returns an error if the module
// can change its tables or drop its segments. Therefore the state of an instance
// is its memory and these globals, and an instance can be reset.
func instrument(module []byte) ([]byte, error) {
	const header = "\x00asm\x01\x00\x00\x00"
	if len(module) < len(header) || string(module[:len(header)]) != header {
		return nil, fmt.Errorf("%w: it has no header of version 1", errWasm)
	}
	out := make([]byte, 0, len(module)+len(module)/8)
	out = append(out, header...)
	in := &reader{buf: module[len(header):]}
	var clock, counter uint32
	var mutable []uint32
	var seen int
	for in.err == nil && len(in.buf) > 0 {
		id := in.byte()
		content := in.take(in.u32())
		if in.err != nil {
			break
		}
		var err error
		switch id {
		case sectionImport:
			seen++
			clock, err = findClock(content)
		case sectionGlobal:
			seen++
			if mutable, err = mutableGlobals(content); err != nil {
				return nil, err
			}
			counter, content, err = addGlobal(content)
			mutable = append(mutable, counter)
		case sectionExport:
			seen++
			content, err = addExports(content, mutable)
		case sectionCode:
			seen++
			content, err = addCounting(content, counter, clock)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(content)))
		out = append(out, content...)
	}
	if in.err != nil {
		return nil, in.err
	}
	if seen != 4 {
		return nil, fmt.Errorf("%w: sections are missing or repeated", errWasm)
	}
	return out, nil
}

// findClock returns the index of the imported clock. It also checks that only
// functions are imported, because imported globals would have the first indices.
func findClock(section []byte) (uint32, error) {
	in := &reader{buf: section}
	n := in.u32()
	clock := n
	for k := uint32(0); k < n && in.err == nil; k++ {
		module, name := in.take(in.u32()), in.take(in.u32())
		if kind := in.byte(); in.err == nil && kind != externFunc {
			return 0, fmt.Errorf("%w: it has an import of kind %d", errWasm, kind)
		}
		in.u32() // type
		if string(module) == clockModule && string(name) == clockName {
			clock = k
		}
	}
	if in.err == nil && clock == n {
		return 0, fmt.Errorf("%w: it does not import a clock", errWasm)
	}
	return clock, in.err
}

// mutableGlobals returns the indices of the mutable globals.
func mutableGlobals(section []byte) ([]uint32, error) {
	in := &reader{buf: section}
	n := in.u32()
	var list []uint32
	for k := uint32(0); k < n && in.err == nil; k++ {
		in.byte() // type
		if in.byte() != 0 {
			list = append(list, k)
		}
		for in.err == nil && in.instruction() != opEnd { //nolint:revive // the initial value is not needed
		}
	}
	return list, in.err
}

// addExports adds exports of globals, with names that begin with globalPrefix.
func addExports(section []byte, globals []uint32) ([]byte, error) {
	in := &reader{buf: section}
	n := in.u32()
	out := binary.AppendUvarint(nil, uint64(n)+uint64(len(globals)))
	out = append(out, in.buf...)
	for order, k := range globals {
		name := globalPrefix + strconv.Itoa(order)
		out = binary.AppendUvarint(out, uint64(len(name)))
		out = append(out, name...)
		out = append(out, externGlobal)
		out = binary.AppendUvarint(out, uint64(k))
	}
	return out, in.err
}

// addGlobal appends a mutable i32 global with the initial value clockInterval,
// and returns its index.
func addGlobal(section []byte) (uint32, []byte, error) {
	in := &reader{buf: section}
	n := in.u32()
	out := binary.AppendUvarint(nil, uint64(n)+1)
	out = append(out, in.buf...)
	const mutable = 1
	out = append(out, typeI32, mutable, opI32Const)
	out = appendSigned(out, clockInterval)
	return n, append(out, opEnd), in.err
}

// addCounting inserts these statements at the start of each loop:
//
//	counter -= 1
//	if counter == 0 { clock(); counter = clockInterval }
func addCounting(section []byte, counter, clock uint32) ([]byte, error) {
	get := binary.AppendUvarint([]byte{opGlobalGet}, uint64(counter))
	set := binary.AppendUvarint([]byte{opGlobalSet}, uint64(counter))
	var head []byte
	head = append(head, get...)
	head = append(head, opI32Const, 1, opI32Sub)
	head = append(head, set...)
	head = append(head, get...)
	head = append(head, opI32Eqz, opIf, typeEmpty, opCall)
	head = binary.AppendUvarint(head, uint64(clock))
	head = append(head, opDrop, opI32Const)
	head = appendSigned(head, clockInterval)
	head = append(head, set...)
	head = append(head, opEnd)

	in := &reader{buf: section}
	n := in.u32()
	out := make([]byte, 0, len(section)+len(section)/8)
	out = binary.AppendUvarint(out, uint64(n))
	var body []byte
	for ; n > 0 && in.err == nil; n-- {
		code := in.take(in.u32())
		if in.err != nil {
			break
		}
		fn := &reader{buf: code}
		for locals := fn.u32(); locals > 0 && fn.err == nil; locals-- {
			fn.u32() // count
			fn.byte()
		}
		body = body[:0]
		done := 0 // bytes of code that are already in body
		for fn.err == nil && len(fn.buf) > 0 {
			if fn.instruction() == opLoop {
				at := len(code) - len(fn.buf)
				body = append(body, code[done:at]...)
				body = append(body, head...)
				done = at
			}
		}
		if fn.err != nil {
			return nil, fn.err
		}
		if fn.lasting {
			return nil, fmt.Errorf("%w: it changes a table or drops a segment", errWasm)
		}
		body = append(body, code[done:]...)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	return out, in.err
}

// appendSigned appends a non-negative number as signed LEB128.
func appendSigned(b []byte, v uint32) []byte {
	for v >= 0x40 {
		b = append(b, byte(v&0x7f)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// reader reads the binary format of WebAssembly. After the first error its
// methods return zeros.
type reader struct {
	buf []byte
	err error
	// lasting reports whether an instruction changes a table or drops a segment.
	lasting bool
}

func (r *reader) failf(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{errWasm}, args...)...)
	}
	r.buf = nil
}

func (r *reader) take(n uint32) []byte {
	if uint64(n) > uint64(len(r.buf)) {
		r.failf("it is truncated")
		return nil
	}
	b := r.buf[:n]
	r.buf = r.buf[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// leb reads a LEB128 number of up to ten bytes. For signed numbers the result
// is undefined.
func (r *reader) leb() uint64 {
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		b := r.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.failf("a number is too long")
	return 0
}

func (r *reader) u32() uint32 {
	v := r.leb()
	if v > 0xffffffff {
		r.failf("a number is too large")
		return 0
	}
	return uint32(v)
}

// instruction reads one instruction with its immediates (5.4) and returns its opcode.
func (r *reader) instruction() byte {
	op := r.byte()
	r.lasting = r.lasting || op == opTableSet
	switch {
	case op == opUnreachable, op == 0x01, op == 0x05, op == opEnd, op == 0x0f, // nop, else, return
		op == opDrop, op == 0x1b, op == 0xd1, // drop, select, ref.is_null
		op >= 0x45 && op <= 0xc4: // numeric
	case op == opBlock, op == opLoop, op == opIf,
		op == 0x0c, op == 0x0d, op == opCall, // br, br_if, call
		op >= 0x20 && op <= 0x26,                                                     // variables and tables
		op == 0x3f, op == 0x40, op == opI32Const, op == 0x42, op == 0xd2, op == 0xd0: // memory.size and .grow, i32 and i64.const, ref.func and ref.null
		r.leb()
	case op == 0x0e: // br_table
		for n := r.u32(); n > 0 && r.err == nil; n-- {
			r.leb()
		}
		r.leb()
	case op == 0x11: // call_indirect
		r.leb()
		r.leb()
	case op == 0x1c: // select with types
		r.take(r.u32())
	case op >= 0x28 && op <= 0x3e: // loads and stores: align and offset
		r.leb()
		r.leb()
	case op == 0x43: // f32.const
		r.take(4)
	case op == 0x44: // f64.const
		r.take(8)
	case op == 0xfc:
		r.extended()
	default:
		r.failf("it has the unknown opcode %#02x", op)
	}
	return op
}

// extended reads the rest of an instruction with the prefix 0xfc.
func (r *reader) extended() {
	sub := r.u32()
	// data.drop, and the instructions for tables except table.size
	r.lasting = r.lasting || sub == 9 || sub >= 12 && sub != 16
	switch {
	case sub <= 7: // saturating truncation
	case sub == 9, sub == 11, sub == 13, sub >= 15 && sub <= 17: // one index
		r.leb()
	case sub == 8, sub == 10, sub == 12, sub == 14: // two indices
		r.leb()
		r.leb()
	default:
		r.failf("it has the unknown opcode 0xfc %d", sub)
	}
}
