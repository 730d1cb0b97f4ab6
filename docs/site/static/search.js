// From a disk a page may not read others, which have the lines around what was found.
if (window.location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
