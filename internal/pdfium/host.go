package pdfium

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/emscripten"
)

// The host functions implement the imports of PDFium. wazero passes the
// parameters, which are addresses and numbers, in a slice that also receives the
// result. Imports that neither hostFuncs nor package emscripten implements fail
// with ENOSYS.

// The document is the only file that PDFium can open.
const (
	documentPath = "/document"
	documentFD   = 3
)

// Error numbers of WASI and Emscripten's libc; system calls return the negated
// number.
const (
	errnoBadFile = 8
	errnoInvalid = 28
	errnoIO      = 29
	errnoNoEntry = 44
	errnoNoSys   = 52
)

var errAbort = errors.New("PDFium called abort")

type hostFunc = func(ctx context.Context, m api.Module, i *instance, stack []uint64)

var hostFuncs = map[string]hostFunc{
	"emscripten_resize_heap": resizeHeap,
	"_emscripten_memcpy_js":  copyMemory,
	clockName:                clock,
	"_tzset_js":              ignore,
	"_localtime_js":          ignore,
	"_gmtime_js":             ignore,
	"_abort_js":              abort,
	"__assert_fail":          abort,
	"__syscall_openat":       openAt,
	"__syscall_fstat64":      fstat,
	"__syscall_fcntl64":      succeed,
	"fd_read":                fdRead,
	"fd_seek":                fdSeek,
	"fd_close":               fdClose,
	"environ_sizes_get":      environSizes,
	"environ_get":            succeed,
}

// instantiateHost defines all functions that module imports.
func instantiateHost(ctx context.Context, runtime wazero.Runtime, module wazero.CompiledModule) error {
	const env, wasi = "env", "wasi_snapshot_preview1"
	builders := map[string]wazero.HostModuleBuilder{
		env:  runtime.NewHostModuleBuilder(env),
		wasi: runtime.NewHostModuleBuilder(wasi),
	}
	// The exporter provides the imports for setjmp and longjmp: invoke_* and
	// _emscripten_throw_longjmp.
	exporter, err := emscripten.NewFunctionExporterForModule(module)
	if err != nil {
		return fmt.Errorf("providing PDFium's imports: %w", err)
	}
	exporter.ExportFunctions(builders[env])
	for _, f := range module.ImportedFunctions() {
		from, name, _ := f.Import()
		if from == env && (len(name) > 7 && name[:7] == "invoke_" || name == "_emscripten_throw_longjmp") {
			continue
		}
		b, ok := builders[from]
		if !ok {
			return fmt.Errorf("PDFium imports %s from %s", name, from)
		}
		fn, ok := hostFuncs[name]
		if !ok {
			fn = refuse
			if from == wasi {
				fn = refuseWASI
			}
		}
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(
			func(ctx context.Context, m api.Module, stack []uint64) { fn(ctx, m, instanceOf(ctx), stack) },
		), f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("providing PDFium's imports: %w", err)
		}
	}
	return nil
}

func negative(errno int32) uint64 { return api.EncodeI32(-errno) }

// ignore implements functions without a result that need no action.
func ignore(context.Context, api.Module, *instance, []uint64) {}

// succeed implements functions that need no action and return 0 for success.
func succeed(_ context.Context, _ api.Module, _ *instance, stack []uint64) { stack[0] = 0 }

// refuse implements system calls that always fail.
func refuse(_ context.Context, _ api.Module, _ *instance, stack []uint64) {
	if len(stack) > 0 {
		stack[0] = negative(errnoNoSys)
	}
}

// refuseWASI implements WASI functions that always fail.
func refuseWASI(_ context.Context, _ api.Module, _ *instance, stack []uint64) { stack[0] = errnoNoSys }

// endCall ends the current call of the sandbox with err.
func endCall(err error) {
	panic(err) //nolint:forbidigo // host functions cannot return errors; wazero recovers the panic and returns it as the error of the call
}

func abort(context.Context, api.Module, *instance, []uint64) { endCall(errAbort) }

// clock ends the current call of PDFium if ctx is done. The instrumented module
// calls it after every clockInterval loop iterations. The result is always the same
// time, so that a rendered page does not depend on the date.
func clock(ctx context.Context, _ api.Module, _ *instance, stack []uint64) {
	if err := ctx.Err(); err != nil {
		endCall(err)
	}
	stack[0] = api.EncodeF64(0)
}

func copyMemory(_ context.Context, m api.Module, _ *instance, stack []uint64) {
	src, ok := m.Memory().Read(uint32(stack[1]), uint32(stack[2]))
	if !ok || !m.Memory().Write(uint32(stack[0]), src) {
		endCall(errAbort)
	}
}

// resizeHeap implements emscripten_resize_heap(size). The result reports
// whether the memory has at least that size afterwards.
func resizeHeap(_ context.Context, m api.Module, i *instance, stack []uint64) {
	want, have := uint32(stack[0]), m.Memory().Size()
	stack[0] = 1
	if want <= have {
		return
	}
	if _, ok := m.Memory().Grow((want - have + wasmPage - 1) / wasmPage); !ok {
		i.exceeded = true
		stack[0] = 0
	}
}

func environSizes(_ context.Context, m api.Module, _ *instance, stack []uint64) {
	m.Memory().WriteUint32Le(uint32(stack[0]), 0)
	m.Memory().WriteUint32Le(uint32(stack[1]), 0)
	stack[0] = 0
}

// openAt implements openat(dirfd, path, flags, mode) for the path of the
// document. Other paths do not exist.
func openAt(_ context.Context, m api.Module, i *instance, stack []uint64) {
	path, ok := m.Memory().Read(uint32(stack[1]), uint32(len(documentPath)+1))
	if !ok || string(path) != documentPath+"\x00" || i.file == nil {
		stack[0] = negative(errnoNoEntry)
		return
	}
	i.file.pos = 0
	stack[0] = documentFD
}

// fstat implements fstat64(fd, buf). It fills Emscripten's struct stat.
func fstat(_ context.Context, m api.Module, i *instance, stack []uint64) {
	const (
		sizeofStat          = 96
		offMode, offNLink   = 4, 8
		offSize, offBlksize = 24, 32
		regularReadOnly     = 0o100400
		blockSize           = 4096
	)
	if uint32(stack[0]) != documentFD || i.file == nil {
		stack[0] = negative(errnoBadFile)
		return
	}
	addr := uint32(stack[1])
	ok := m.Memory().Write(addr, make([]byte, sizeofStat)) &&
		m.Memory().WriteUint32Le(addr+offMode, regularReadOnly) &&
		m.Memory().WriteUint32Le(addr+offNLink, 1) &&
		m.Memory().WriteUint64Le(addr+offSize, uint64(i.file.size)) &&
		m.Memory().WriteUint32Le(addr+offBlksize, blockSize)
	if !ok {
		endCall(errAbort)
	}
	stack[0] = 0
}

// fdSeek implements fd_seek(fd, offset low, offset high, whence, address of the
// new position).
func fdSeek(_ context.Context, m api.Module, i *instance, stack []uint64) {
	if uint32(stack[0]) != documentFD || i.file == nil {
		stack[0] = errnoBadFile
		return
	}
	offset := int64(uint64(uint32(stack[2]))<<32 | uint64(uint32(stack[1])))
	pos, err := i.file.Seek(offset, int(uint32(stack[3])))
	if err != nil {
		stack[0] = errnoInvalid
		return
	}
	m.Memory().WriteUint64Le(uint32(stack[4]), uint64(pos))
	stack[0] = 0
}

// fdRead implements fd_read(fd, array of addresses and lengths, length of the
// array, address of the number of bytes read).
func fdRead(_ context.Context, m api.Module, i *instance, stack []uint64) {
	if uint32(stack[0]) != documentFD || i.file == nil {
		stack[0] = errnoBadFile
		return
	}
	mem := m.Memory()
	total := uint32(0)
	for k := range uint32(stack[2]) {
		addr, ok := mem.ReadUint32Le(uint32(stack[1]) + 8*k)
		size, ok2 := mem.ReadUint32Le(uint32(stack[1]) + 8*k + 4)
		if !ok || !ok2 {
			stack[0] = errnoInvalid
			return
		}
		buf, ok := mem.Read(addr, size)
		if !ok {
			stack[0] = errnoInvalid
			return
		}
		n, err := i.file.Read(buf)
		total += uint32(n)
		if err != nil {
			if i.readErr == nil {
				i.readErr = err
			}
			stack[0] = errnoIO
			return
		}
		if n < len(buf) {
			break
		}
	}
	mem.WriteUint32Le(uint32(stack[3]), total)
	stack[0] = 0
}

func fdClose(_ context.Context, _ api.Module, _ *instance, stack []uint64) {
	if uint32(stack[0]) != documentFD {
		stack[0] = errnoBadFile
		return
	}
	stack[0] = 0
}
