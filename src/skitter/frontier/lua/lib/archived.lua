--[[
archived: which pages of the archive were completed. A line waits here until a process that has the
folder has written it into the index.

KEYS   archived set    lines of an index
]]
