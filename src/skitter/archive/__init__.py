"""The pages of a crawl, kept as WARC files: every response that a handler saw.

A record is written before its page is completed, and the index is made from completions: what a
worker wrote for a lease that it had lost is in the file, but never replayed.

diff         What a changed spider changes: the rows of two outputs, compared field by field
differences  What differs between what a handler should find on a saved page and what it finds
files        The files of an archive: which there are, and whether a process still writes to one
index        Which record is whose
masking      What is not kept of a request and its response: cookies and credentials
package      An archive as one file: a WACZ 1.1.1 (specs.webrecorder.net/wacz)
playback     The archive instead of the web, or in front of it
record       A kept response as a WARC 1.1 record, and back
store        An archive in an object store: s3://, gs://, az:// and file:///
writer       Writes the responses of one process into WARC files
"""
