package blob

import (
	"container/list"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	// cacheDir is the name of the folder with copies of blobs.
	cacheDir = "cache"
	// cacheTime is the time for which a copy is used. A blob never changes, so the time limits only
	// how long a copy of a deleted or repaired blob remains.
	cacheTime = time.Hour
	// cacheFree is the share of the disk that must be free before a copy is written. It is more than Put
	// requires.
	cacheFree = 2 * minFree
)

// cache has copies of blobs in a folder of this machine. The folder may be deleted at any time. newCache
// deletes the copies of an earlier process, because they may be incomplete after a power failure. The
// methods of a nil cache do nothing.
type cache struct {
	dir   string
	limit int64
	now   func() time.Time

	mu sync.Mutex
	// order has the entries, the oldest first. entries has the elements of order by key.
	order   *list.List
	entries map[string]*list.Element
	size    int64
	names   uint64
}

// entry describes a copy.
type entry struct {
	key     string
	file    string
	version Version
	expires time.Time
}

// newCache returns an empty cache of up to limit bytes.
func newCache(dir string, limit int64) *cache {
	_ = os.RemoveAll(dir) // files that cannot be deleted are not used
	return &cache{dir: dir, limit: limit, now: time.Now, order: list.New(), entries: map[string]*list.Element{}}
}

// open opens a copy. It returns nil if there is no complete copy.
func (c *cache) open(key string) Object {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	element, ok := c.entries[key]
	if !ok {
		return nil
	}
	e := element.Value.(*entry) //nolint:errcheck,forcetypeassert // the list has only *entry
	file, err := os.Open(e.file)
	if err == nil {
		var info os.FileInfo
		if info, err = file.Stat(); err == nil && info.Size() == e.version.Size {
			return &wholeObject{File: file, version: e.version}
		}
		_ = file.Close() // it was only read
	}
	c.drop(element)
	return nil
}

// add copies a blob from a file. If that fails, the blob is read from the store the next time.
func (c *cache) add(key string, from *os.File, v Version) {
	if c == nil || v.Size > c.limit {
		return
	}
	c.mu.Lock()
	c.names++
	name := filepath.Join(c.dir, strconv.FormatUint(c.names, 10))
	c.mu.Unlock()
	if c.write(name, io.NewSectionReader(from, 0, v.Size)) != nil {
		_ = os.Remove(name)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(key)
	c.entries[key] = c.order.PushBack(&entry{key: key, file: name, version: v, expires: c.now().Add(cacheTime)})
	c.size += v.Size
	for c.size > c.limit {
		c.drop(c.order.Front())
	}
	c.expire()
}

var errCacheDisk = errors.New("the disk has too little space for a cache")

func (c *cache) write(name string, r io.Reader) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if share, err := FreeShare(c.dir); err != nil || share < cacheFree {
		return errors.Join(err, errCacheDisk)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r)
	return errors.Join(err, file.Close())
}

// remove removes a copy.
func (c *cache) remove(key string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(key)
}

// purge removes the copies that have expired.
func (c *cache) purge() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
}

func (c *cache) removeLocked(key string) {
	if element, ok := c.entries[key]; ok {
		c.drop(element)
	}
}

// expire removes the copies that have expired. The caller must lock mu.
func (c *cache) expire() {
	now := c.now()
	for front := c.order.Front(); front != nil && front.Value.(*entry).expires.Before(now); front = c.order.Front() { //nolint:errcheck,forcetypeassert // only *entry
		c.drop(front)
	}
}

// drop removes a copy. Objects that open returned can still be read.
func (c *cache) drop(element *list.Element) {
	e := c.order.Remove(element).(*entry) //nolint:errcheck,forcetypeassert // the list has only *entry
	delete(c.entries, e.key)
	c.size -= e.version.Size
	_ = os.Remove(e.file) // the file may be missing
}
