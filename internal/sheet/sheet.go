// Package sheet owns tables from spreadsheets: it reads Excel and CSV files as different programs
// save them, detects the meaning of columns and the order of dates, and writes CSV that is safe to
// open in a spreadsheet. It does not depend on the purpose of the rows.
package sheet
