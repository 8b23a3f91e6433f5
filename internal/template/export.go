package template

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/typeset"
)

// FileExtension is the extension of exported files.
const FileExtension = ".cvtemplate"

const (
	// exportFormat is the version of the format of exported files.
	exportFormat = 1
	// maxExport is the maximum size in bytes of a file that Import reads, and of all its members together.
	// maxUnpacked is the maximum size of one member.
	maxExport   = 64 << 20
	maxUnpacked = maxDesign
	maxMembers  = 200

	memberTemplate = "template.json"
	memberDesign   = "design.pdf"
	memberPictures = "pictures/"
)

// exported is the member template.json of an exported file.
type exported struct {
	Format int           `json:"format"`
	Name   string        `json:"name"`
	Layout design.Layout `json:"layout"`
	// Fonts are the uploaded fonts whose families the layout names. The file does not contain them,
	// because their licence may not permit it.
	Fonts []exportedFont `json:"fonts,omitempty"`
}

type exportedFont struct {
	SHA256   string `json:"sha256"`
	FileName string `json:"file_name"`
	Family   string `json:"family"`
}

// Export writes a template to w as one file: the design, the fields and the pictures of the draft, or of
// the published version if there is no draft. The file names the uploaded fonts of the template, but does
// not contain them. The error is fault.NotFound if there is no such template.
func (s *Service) Export(ctx context.Context, institutionID int64, uuid string, w io.Writer) error {
	t, err := s.ByUUID(ctx, institutionID, uuid)
	if err != nil {
		return err
	}
	v := t.Latest()
	release, err := s.acquireMemory(ctx)
	if err != nil {
		return err
	}
	defer release()
	out := exported{Format: exportFormat, Name: t.Name, Layout: v.Layout}
	if out.Fonts, err = s.exportedFonts(ctx, v); err != nil {
		return err
	}
	about, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("exporting a template: %w", err)
	}
	file, err := s.load(ctx, v.designKey)
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	add := func(name string, content []byte) error {
		member, err := z.Create(name)
		if err == nil {
			_, err = member.Write(content)
		}
		return err
	}
	if err := errors.Join(add(memberTemplate, about), add(memberDesign, file)); err != nil {
		return fmt.Errorf("exporting a template: %w", err)
	}
	for _, id := range pictureIDs(&v.Layout) {
		picture, err := s.picture(ctx, institutionID, id)
		if errors.Is(err, design.ErrNoPicture) {
			continue // Publish reports the missing picture
		}
		if err != nil {
			return err
		}
		if err := add(memberPictures+id, picture); err != nil {
			return fmt.Errorf("exporting a template: %w", err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("exporting a template: %w", err)
	}
	return nil
}

// pictureIDs returns the ids of the pictures of a layout, each once, without the logo.
func pictureIDs(l *design.Layout) (ids []string) {
	for i := range l.Fields {
		if id := l.Fields[i].Image; id != "" && id != logo && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// exportedFonts returns the uploaded fonts whose families a version names.
func (s *Service) exportedFonts(ctx context.Context, v *Version) (list []exportedFont, err error) {
	fonts, err := s.Fonts(ctx, v.institutionID)
	if err != nil {
		return nil, err
	}
	for _, f := range fonts {
		names := func(face typeset.Face) bool {
			return slices.ContainsFunc(v.Layout.Fields, func(field design.Field) bool { return field.Font.Family == face.Family })
		}
		if slices.ContainsFunc(f.Info.Faces, names) {
			list = append(list, exportedFont{f.ID, f.FileName, f.Info.Family})
		}
	}
	return list, nil
}

// acquireMemory waits until fewer than maxDesigning designs are in memory. The caller must call release.
func (s *Service) acquireMemory(ctx context.Context) (release func(), err error) {
	if err := s.designing.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting to read a design: %w", err)
	}
	return func() { s.designing.Release(1) }, nil
}

// errExport is the error for a file that Import cannot read.
var errExport = fault.OfField("file", "The file is not an exported template, or it is damaged.")

// Import creates a template with a draft from an exported file. If name is empty, the template has the
// name in the file. The draft has a warning for each uploaded font that the institution does not have. The
// error is fault.Invalid if the file cannot be used.
func (s *Service) Import(ctx context.Context, inst *account.Institution, name string, r io.Reader) (*Template, error) {
	release, err := s.acquireMemory(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	file, err := readAll(r, maxExport, "file", fmt.Sprintf("An exported template can have at most %d MB.", maxExport>>20))
	if err != nil {
		return nil, err
	}
	members, err := unpack(file)
	if err != nil {
		return nil, err
	}
	var in exported
	if err := json.Unmarshal(members[memberTemplate], &in); err != nil || in.Format < 1 {
		return nil, errExport
	}
	if len(in.Fonts) > maxFonts {
		return nil, errExport
	}
	if in.Format > exportFormat {
		return nil, fault.OfField("file", "The template was exported by a newer version of Certvault. Update this vault first.")
	}
	if name == "" {
		name = in.Name
	}
	if name, err = checkName(name); err != nil {
		return nil, err
	}
	d, err := prepare(ctx, members[memberDesign], "")
	if err != nil {
		return nil, err
	}
	if _, err := encode(&in.Layout); err != nil {
		return nil, err
	}
	for _, id := range pictureIDs(&in.Layout) {
		if picture, ok := members[memberPictures+id]; ok {
			stored, err := s.AddPicture(ctx, inst, bytes.NewReader(picture))
			if err != nil {
				return nil, err
			}
			if stored != id {
				return nil, errExport
			}
		}
	}
	warnings, err := s.missingFonts(ctx, inst.ID, in.Fonts)
	if err != nil {
		return nil, err
	}
	d.Warnings = append(d.Warnings, warnings...)
	return s.create(ctx, inst, name, d, &in.Layout, audit.TemplateImported)
}

// missingFonts returns a warning for each font that the institution does not have.
func (s *Service) missingFonts(ctx context.Context, institutionID int64, fonts []exportedFont) (list []design.Warning, err error) {
	own, err := s.Fonts(ctx, institutionID)
	if err != nil {
		return nil, err
	}
	for _, f := range fonts {
		if !slices.ContainsFunc(own, func(have *Font) bool { return have.ID == f.SHA256 }) {
			text := fmt.Sprintf("The template uses the uploaded font %s. Upload its file %s, or choose another font.", cleanFileName(f.Family), cleanFileName(f.FileName))
			list = append(list, design.Warning{Code: "font_missing", Text: text})
		}
	}
	return list, nil
}

// unpack returns the members of an exported file by name.
func unpack(file []byte) (map[string][]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil || len(z.File) > maxMembers {
		return nil, errExport
	}
	members := map[string][]byte{}
	total := 0
	for _, m := range z.File {
		content, err := member(m)
		if err != nil {
			return nil, errExport
		}
		if total += len(content); total > maxExport {
			return nil, errExport
		}
		members[m.Name] = content
	}
	if members[memberTemplate] == nil || members[memberDesign] == nil {
		return nil, errExport
	}
	return members, nil
}

var errMember = errors.New("the member is too large")

func member(m *zip.File) (content []byte, err error) {
	r, err := m.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	content, err = io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err == nil && len(content) > maxUnpacked {
		err = errMember
	}
	return content, err
}
