package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/config"
)

// examineFileStore checks the installation id of the file store. If the id is correct, it checks that
// the store works.
func examineFileStore(ctx context.Context, c config.Storage) []Finding {
	store, err := openFiles(c)
	if err != nil {
		return []Finding{finding("file store", "", err)}
	}
	installation := examineInstallation(ctx, c, store)
	if !installation.Good {
		// Test would write a file to a store that may belong to another installation.
		return []Finding{installation, finding("file store", "", errors.New("not checked, because the installation is wrong"))}
	}
	if store, err = createFiles(c, store); err == nil {
		err = store.Test(ctx)
	}
	list := []Finding{installation, finding("file store", "usable", err)}
	if s3, ok := store.(*blob.S3); ok && err == nil {
		list = append(list, examineUploads(ctx, s3))
	}
	return list
}

// examineUploads warns about incomplete uploads that no rule of the bucket ends.
func examineUploads(ctx context.Context, s *blob.S3) Finding {
	i, err := s.Incomplete(ctx)
	detail := "a rule of the bucket ends them"
	switch {
	case err == nil && !i.Rule && i.Uploads > 0:
		err = warning{fmt.Errorf("%s in %s, which certvault did not make: the provider charges for their parts", count(i.Uploads, "incomplete upload"), s.Location())}
	case !i.Rule:
		detail = "none, and certvault makes none"
	}
	return finding("incomplete uploads", detail, err)
}
