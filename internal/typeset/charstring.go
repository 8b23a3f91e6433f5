package typeset

import (
	"math"

	"github.com/go-text/typesetting/font/opentype"
)

// Operators of Type 2 charstrings (Adobe Technical Note 5177).
const (
	opVMoveTo, opLineTo, opHLineTo, opVLineTo, opCurveTo = 4, 5, 6, 7, 8
	opEnd, opMoveTo, opHMoveTo                           = 14, 21, 22
	opVVCurveTo, opHHCurveTo, opVHCurveTo, opHVCurveTo   = 26, 27, 30, 31
	maxOperands                                          = 48
)

// charstring writes the outlines of a glyph. An operator that repeats is written once, after all its
// operands.
type charstring struct {
	data  []byte
	scale float64 // from font units
	x, y  int     // the pen, in units of the charstring
	// op is the operator of operands that are not written yet, or 0. vertical reports whether the next
	// line or curve of an alternating operator begins vertically. last reports whether op accepts no more
	// operands.
	op       byte
	operands []int
	vertical bool
	last     bool
}

// flush writes the operands, followed by their operator.
func (c *charstring) flush() {
	if c.op == 0 {
		return
	}
	for _, v := range c.operands {
		c.data = append(c.data, cffInt(v)...)
	}
	c.data = append(c.data, c.op)
	c.op, c.operands, c.last = 0, c.operands[:0], false
}

// add appends operands of the operator op. It first calls flush if the pending operator is another one or
// cannot have these operands too.
func (c *charstring) add(op byte, operands ...int) {
	if c.op != op || c.last || len(c.operands)+len(operands) > maxOperands {
		c.flush()
	}
	c.op = op
	c.operands = append(c.operands, operands...)
}

// point moves the pen to a point of the outline, rounded to units, and returns the distance that it
// moved.
func (c *charstring) point(p opentype.SegmentPoint, at part) (dx, dy int) {
	x := int(math.Round((float64(p.X) + float64(at.x)) * c.scale))
	y := int(math.Round((float64(p.Y) + float64(at.y)) * c.scale))
	dx, dy = x-c.x, y-c.y
	c.x, c.y = x, y
	return dx, dy
}

// segment writes a segment of a glyph, moved by the offset of at.
func (c *charstring) segment(s *opentype.Segment, at part) {
	dx, dy := c.point(s.Args[0], at)
	switch s.Op {
	case opentype.SegmentOpMoveTo:
		c.flush()
		switch {
		case dy == 0:
			c.add(opHMoveTo, dx)
		case dx == 0:
			c.add(opVMoveTo, dy)
		default:
			c.add(opMoveTo, dx, dy)
		}
		c.flush()
	case opentype.SegmentOpLineTo:
		c.line(dx, dy)
	case opentype.SegmentOpQuadTo, opentype.SegmentOpCubeTo: // joinCurves has replaced quadratic curves
		dx2, dy2 := c.point(s.Args[1], at)
		dx3, dy3 := c.point(s.Args[2], at)
		c.curve(dx, dy, dx2, dy2, dx3, dy3)
	}
}

// line writes a line. Horizontal and vertical lines alternate in one operator.
func (c *charstring) line(dx, dy int) {
	switch {
	case dx == 0 && dy == 0:
	case dx != 0 && dy != 0:
		c.add(opLineTo, dx, dy)
	default:
		vertical := dx == 0
		c.alternate(vertical, opHLineTo, opVLineTo, dx+dy)
	}
}

// alternate adds the operands of a line or a curve that begins vertically or horizontally. The two
// directions alternate in one operator.
func (c *charstring) alternate(vertical bool, horizontalOp, verticalOp byte, operands ...int) {
	if c.op != horizontalOp && c.op != verticalOp || c.vertical != vertical {
		c.flush()
	}
	op := c.op
	if len(c.operands)+len(operands) > maxOperands || c.last {
		op = 0
	}
	if op == 0 {
		op = horizontalOp
		if vertical {
			op = verticalOp
		}
	}
	c.add(op, operands...)
	c.vertical = !vertical
}

// curve writes a cubic curve. Most curves begin or end horizontally or vertically.
func (c *charstring) curve(dx1, dy1, dx2, dy2, dx3, dy3 int) {
	switch {
	case dy1 == 0 && dy3 == 0:
		c.add(opHHCurveTo, dx1, dx2, dy2, dx3)
	case dx1 == 0 && dx3 == 0:
		c.add(opVVCurveTo, dy1, dx2, dy2, dy3)
	case dy1 == 0:
		c.turn(false, dx1, dx2, dy2, dy3, dx3)
	case dx1 == 0:
		c.turn(true, dy1, dx2, dy2, dx3, dy3)
	case dy3 == 0: // the first curve of the operator may begin in any direction
		c.flush()
		c.add(opHHCurveTo, dy1, dx1, dx2, dy2, dx3)
	case dx3 == 0:
		c.flush()
		c.add(opVVCurveTo, dx1, dy1, dx2, dy2, dy3)
	default:
		c.add(opCurveTo, dx1, dy1, dx2, dy2, dx3, dy3)
	}
}

// turn writes a curve that begins vertically or horizontally. If rest is 0, the curve ends at a right angle
// to its beginning.
func (c *charstring) turn(vertical bool, d1, dx2, dy2, d3, rest int) {
	operands := []int{d1, dx2, dy2, d3}
	if rest != 0 {
		operands = append(operands, rest)
	}
	c.alternate(vertical, opHVCurveTo, opVHCurveTo, operands...)
	c.last = rest != 0
}
