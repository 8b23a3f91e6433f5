// Command fill stores very many certificates in the database of a vault, so that large lists can be tested
// (see package scale). If there is no institution with the slug, fill creates it.
//
//	go run ./test/scale/fill -data ./certvault-data -institution nwu -count 1000000
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/certvault/certvault/test/scale"
)

func main() {
	data := flag.String("data", "certvault-data", "data `folder` with the SQLite database")
	database := flag.String("database", "", "postgres:// `URL` of the database, instead of -data")
	slug := flag.String("institution", "nwu", "`slug` of the institution; its prefix is the same in capitals")
	count := flag.Int("count", 1_000_000, "number of certificates")
	seed := flag.Uint64("seed", 1, "seed of the random values")
	flag.Parse()
	if err := run(context.Background(), *data, *database, *slug, *count, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, data, database, slug string, count int, seed uint64) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	began := time.Now()
	return scale.Fill{Count: count, Seed: seed, Progress: func(done int) {
		fmt.Fprintf(os.Stderr, "\r%d of %d, %.0f s", done, count, time.Since(began).Seconds())
	}}.Into(ctx, data, database, slug)
}
